//! The proxy on a loopback port, as the door serves it, with names that tests make up.

mod connection_reuse;
mod fixture;
mod proxying;
mod rules;
