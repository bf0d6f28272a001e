//! Connections to HTTP/1.1 servers, driven by the task that uses them (`connection`), on which no response waits for an
//! acknowledgement (`quick_ack`).

mod client_stream;
mod connection;
mod quick_ack;
#[cfg(any(test, feature = "test-support"))]
pub mod two_piece_server;

pub use client_stream::ClientStream;
pub use connection::Http1Connection;
