//! Keeps sandboxes as their owners want them. One task per sandbox owns it: it alone performs steps, one
//! at a time, in the order they were asked for.
//!
//! ```text
//!  api ──Ask──▶ fleet ──▶ owner (one per sandbox) ──▶ core::plan ──▶ steps ──▶ driver
//!                 ▲          │ intent before, facts after          ◀── death ──┘
//!                 └─ watch ──┴──▶ store
//!                          runner (one per task without an end) ──▶ runtimed, by control
//! ```

mod bring_up;
mod clock;
mod discard;
#[cfg(test)]
mod doze;
mod error;
#[cfg(test)]
pub(crate) mod fixture;
mod fleet;
mod follow;
mod owner;
mod perform;
mod rest;
mod salvage;
#[cfg(test)]
mod simulation;
mod site;
mod sse;
mod task_follow;
mod tasks;
mod timing;
mod turns;

pub use clock::Clock;
pub use error::FleetError;
pub use fleet::{Ask, Fleet, FleetParts};
pub use site::{Site, Visit, Waiting};
pub use timing::Timing;
