//! Connections to the ports of a sandbox: one at a time (`connection`), those that are kept
//! (`connection_pool`), and how many there may be (`concurrency_window`, `socket_limit`). Knows HTTP and
//! nothing of previews.

mod concurrency_window;
mod connection;
mod connection_pool;
mod delivery;
mod protocol_sniffer;
mod request_body;
mod socket_limit;

pub use concurrency_window::WindowPermit;
pub use connection::{SendError, UpgradedConnection, UpstreamConnection};
pub use connection_pool::UpstreamPool;
pub use delivery::{Delivery, DeliveryMeter};
pub use request_body::{BodyError, RequestBody};
pub use socket_limit::{SocketLimit, SocketPermit};
