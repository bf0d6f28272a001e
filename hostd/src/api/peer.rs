//! The client side of a connection to the API.

use std::net::SocketAddr;

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Tcp {
        from: SocketAddr,
        local: SocketAddr,
        /// Whether the connection speaks TLS.
        encrypted: bool,
    },
    /// On the Unix socket; the kernel reports the uid.
    Unix { uid: u32 },
}

impl Peer {
    /// The address for the audit log; empty where a proxy of hostd's own is in between.
    pub fn audit_text(self) -> String {
        match self {
            Self::Tcp { from, .. } if from.ip().is_unspecified() => String::new(),
            Self::Tcp { from, .. } => from.ip().to_canonical().to_string(),
            Self::Unix { .. } => "unix".to_owned(),
        }
    }

    pub fn is_loopback(self) -> bool {
        match self {
            Self::Tcp { from, .. } => from.ip().to_canonical().is_loopback(),
            Self::Unix { .. } => true,
        }
    }
}
