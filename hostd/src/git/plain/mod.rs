//! The plain git protocol (`git://`) between git in a sandbox and the gateway, for repositories on SSH servers: there
//! git speaks to the server in turns, which HTTP cannot carry.

mod connection;
mod request;

pub use request::{GitVersion, is_plain_git};
