//! How hostd itself reaches the world: names to addresses, and connections to those. Used by the gateway and by
//! the proxy; which addresses may be reached is decided by whoever asks.

mod connector;
mod dns;

pub use connector::{OutboundConnector, OutboundError};
pub use dns::DnsResolver;
