//! The gateway between a real client and a provider that does as it is told, on loopback.

mod bounds;
mod faults;
mod front;
mod offers;
mod pass;
mod provider;
mod reading;
mod retries;
pub mod trial;
