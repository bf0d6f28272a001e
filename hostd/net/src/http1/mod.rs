//! Connections to HTTP/1.1 servers, driven by the task that uses them (`connection`).

mod connection;

pub use connection::{ClientStream, Http1Connection};
