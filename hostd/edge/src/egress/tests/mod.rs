//! The proxy on a loopback port, served as the door does, with DNS names that tests make up.

mod connection_reuse;
mod fixture;
mod proxying;
mod rules;
