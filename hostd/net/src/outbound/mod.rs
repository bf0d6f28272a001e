//! Outbound connections of hostd itself: DNS lookups, TCP and TLS. Used by the gateway and by the egress
//! proxy; the caller decides which addresses are allowed.

mod connector;
mod dns;

pub use connector::{OutboundConnector, OutboundError, OutboundStream};
pub use dns::DnsResolver;
