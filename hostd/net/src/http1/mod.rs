//! Connections to HTTP/1.1 servers, driven by the task that uses them (`connection`, `exchange`) and kept for the next request
//! (`pool`). No response waits for an acknowledgement of ours (`quick_ack`).

mod client_stream;
mod connection;
mod exchange;
mod pool;
mod quick_ack;
#[cfg(any(test, feature = "test-support"))]
pub mod two_piece_server;

pub use client_stream::ClientStream;
pub use connection::Http1Connection;
pub use exchange::{ExchangeError, ResponseBody};
pub use pool::{Http1Pool, PoolLimits, Pooled, WhenFull};
