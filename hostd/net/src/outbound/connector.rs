//! Opens outbound TCP connections, and TLS on them.

use super::DnsResolver;
use std::{net::IpAddr, sync::Arc, time::Duration};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, pki_types::ServerName},
};
use tokio_util::either::Either;

/// Timeouts of a DNS lookup, of connecting to one address, and of a TLS handshake.
const LOOKUP_MAX: Duration = Duration::from_secs(10);
const CONNECT_MAX: Duration = Duration::from_secs(10);
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// The message of all three timeouts.
const TIMED_OUT: &str = "timed out";
/// Addresses of a name that are considered: a DNS response may hold thousands.
const ADDRESSES_RESOLVED_MAX: usize = 16;
/// Addresses that are connected to, one after the other.
const ADDRESSES_TRIED_MAX: usize = 4;

/// A connection with TLS or without.
pub type OutboundStream = Either<TcpStream, TlsStream<TcpStream>>;

#[derive(Clone)]
pub struct OutboundConnector {
    resolver: DnsResolver,
    tls: TlsConnector,
}

#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error("there is no host {host}")]
    NoHost { host: String },
    #[error("the name {host} could not be looked up: {why}")]
    Lookup { host: String, why: String },
    /// No address of the host is allowed; holds the first one.
    #[error("no address of {host} may be reached")]
    NotAllowed { host: String, address: IpAddr },
    #[error("could not connect to {host}: {why}")]
    Connect { host: String, why: String },
    #[error("no TLS connection to {host}: {why}")]
    Tls { host: String, why: String },
}

impl OutboundError {
    /// Whether the failure is a timeout.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Lookup { why, .. } | Self::Connect { why, .. } | Self::Tls { why, .. } => why == TIMED_OUT,
            Self::NoHost { .. } | Self::NotAllowed { .. } => false,
        }
    }
}

impl OutboundConnector {
    /// Uses the DNS configuration and the trusted certificates of the host.
    pub fn from_host_config() -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self { resolver: DnsResolver::from_host_config(), tls: TlsConnector::from(Arc::new(config)) }
    }

    /// Uses a given resolver and trusts no certificate, for tests.
    #[cfg(any(test, feature = "test-support"))]
    pub fn with_resolver(resolver: DnsResolver) -> Self {
        let config =
            ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        Self { resolver, tls: TlsConnector::from(Arc::new(config)) }
    }

    /// Connects to an address of the host that `is_allowed`. The name is looked up once, and the checked
    /// address is used.
    pub async fn connect(
        &self,
        host: &str,
        port: u16,
        is_allowed: impl Fn(IpAddr) -> bool,
    ) -> Result<TcpStream, OutboundError> {
        let named = || host.to_owned();
        let lookup = |why: String| OutboundError::Lookup { host: named(), why };
        let found = timeout(LOOKUP_MAX, self.resolver.lookup(host)).await;
        let found = found.map_err(|_| lookup(TIMED_OUT.to_owned()))?.map_err(lookup)?;
        let first = *found.first().ok_or_else(|| OutboundError::NoHost { host: named() })?;
        let allowed: Vec<IpAddr> =
            found.into_iter().take(ADDRESSES_RESOLVED_MAX).filter(|address| is_allowed(*address)).collect();
        if allowed.is_empty() {
            return Err(OutboundError::NotAllowed { host: named(), address: first });
        }
        let mut why = String::new();
        for address in allowed.into_iter().take(ADDRESSES_TRIED_MAX) {
            match timeout(CONNECT_MAX, TcpStream::connect((address, port))).await {
                Ok(Ok(stream)) => {
                    // Failure costs only latency.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => why = error.to_string(),
                Err(_) => TIMED_OUT.clone_into(&mut why),
            }
        }
        Err(OutboundError::Connect { host: named(), why })
    }

    pub async fn connect_tls(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, OutboundError> {
        let failed = |why: String| OutboundError::Tls { host: host.to_owned(), why };
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(bare).map_err(|error| failed(error.to_string()))?;
        match timeout(HANDSHAKE_MAX, self.tls.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed(TIMED_OUT.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::RefCell, net::Ipv4Addr};

    #[tokio::test]
    async fn of_a_name_with_many_addresses_only_the_first_are_considered() {
        let resolver = DnsResolver::fixed(|_| {
            (0..5_000_u32).map(|low| Ipv4Addr::from_bits(0x0a00_0000 | low).into()).collect()
        });
        let checked = RefCell::new(Vec::new());
        let deny = |address: IpAddr| {
            checked.borrow_mut().push(address);
            false
        };
        let error = OutboundConnector::with_resolver(resolver)
            .connect("many.test", 80, deny)
            .await
            .expect_err("denied");
        let first: IpAddr = "10.0.0.0".parse().expect("an address");
        assert!(matches!(error, OutboundError::NotAllowed { address, .. } if address == first), "{error}");
        assert_eq!(error.to_string(), "no address of many.test may be reached");
        assert_eq!(checked.borrow().len(), ADDRESSES_RESOLVED_MAX);
    }
}
