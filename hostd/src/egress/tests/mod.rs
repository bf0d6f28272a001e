//! The proxy on a loopback port, as the door serves it, with names that tests make up.

mod kept;
mod proxying;
mod rules;
mod world;
