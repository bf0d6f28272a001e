//! The HTTP proxy through which sandboxes of network mode `proxy` reach the internet: it decides by rules,
//! connects, counts bytes, and answers refused requests with the reason.
//!
//! ```text
//!  door ──▶ SandboxEgress (one per door) ──decide──▶ outbound ──▶ tunnel (CONNECT) or forward (http://)
//!              │  ▲ rules: record of the sandbox, profiles           │ bytes
//!              │  └──── open connections that are now denied are cut ▼
//!              └──────────▶ recorder: events (the first at once, repetitions summed) and bytes used
//! ```
//!
//! **Invariant:** the address that was decided on is the address that is connected; no name is looked up
//! twice.

mod connection_pool;
mod forward;
mod head_size;
mod host_addresses;
mod limits;
mod metered_body;
mod metrics;
mod profiles;
mod proxy;
mod recorder;
mod refusal;
mod sandbox_egress;
mod server_connection;
mod splice_pipe;
#[cfg(test)]
mod tests;
mod tracked_connection;
mod tunnel;

pub use host_addresses::HostAddresses;
pub use metrics::EgressMetrics;
pub use profiles::{Profiles, ProfilesError};
pub use proxy::{Egress, EgressParts, ProxyResponse};
pub use sandbox_egress::SandboxEgress;
pub use tracked_connection::Direction;
