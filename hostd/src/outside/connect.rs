//! Connections to the world.

use super::Names;
use std::{net::IpAddr, sync::Arc, time::Duration};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, pki_types::ServerName},
};

/// How long a name may take, one address, and a handshake.
const LOOKUP_MAX: Duration = Duration::from_secs(10);
const CONNECT_MAX: Duration = Duration::from_secs(10);
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// The word for all of them.
const LATE: &str = "no answer in time";
/// How many addresses of a name are looked at: whoever answers for it may name thousands.
const FOUND_MAX: usize = 16;
/// And how many are tried.
const ADDRESSES_MAX: usize = 4;

#[derive(Clone)]
pub struct Outside {
    names: Names,
    tls: TlsConnector,
}

#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    #[error("there is no host {host}")]
    NoHost { host: String },
    #[error("the name {host} could not be looked up: {why}")]
    Lookup { host: String, why: String },
    /// None of its addresses may be reached; the first of them.
    #[error("{host} is at no address that may be reached")]
    Address { host: String, address: IpAddr },
    #[error("could not connect to {host}: {why}")]
    Connect { host: String, why: String },
    #[error("no secure connection to {host}: {why}")]
    Secure { host: String, why: String },
}

impl OutsideError {
    /// Whether somebody took too long.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Lookup { why, .. } | Self::Connect { why, .. } | Self::Secure { why, .. } => why == LATE,
            Self::NoHost { .. } | Self::Address { .. } => false,
        }
    }
}

impl Outside {
    /// Trusts whom the host trusts.
    pub fn of_this_host() -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self { names: Names::of_this_host(), tls: TlsConnector::from(Arc::new(config)) }
    }

    /// Names as a test says them, and nobody trusted.
    #[cfg(test)]
    pub fn of_names(names: Names) -> Self {
        let config =
            ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        Self { names, tls: TlsConnector::from(Arc::new(config)) }
    }

    /// Connects to an address of the host that `may` be reached: looked up once, and that very address used.
    pub async fn connect(
        &self,
        host: &str,
        port: u16,
        may: impl Fn(IpAddr) -> bool,
    ) -> Result<TcpStream, OutsideError> {
        let named = || host.to_owned();
        let lookup = |why: String| OutsideError::Lookup { host: named(), why };
        let found = timeout(LOOKUP_MAX, self.names.lookup(host)).await;
        let found = found.map_err(|_| lookup(LATE.to_owned()))?.map_err(lookup)?;
        let first = *found.first().ok_or_else(|| OutsideError::NoHost { host: named() })?;
        let allowed: Vec<IpAddr> =
            found.into_iter().take(FOUND_MAX).filter(|address| may(*address)).collect();
        if allowed.is_empty() {
            return Err(OutsideError::Address { host: named(), address: first });
        }
        let mut why = String::new();
        for address in allowed.into_iter().take(ADDRESSES_MAX) {
            match timeout(CONNECT_MAX, TcpStream::connect((address, port))).await {
                Ok(Ok(stream)) => {
                    // Costs only speed.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => why = error.to_string(),
                Err(_) => LATE.clone_into(&mut why),
            }
        }
        Err(OutsideError::Connect { host: named(), why })
    }

    pub async fn secure(&self, host: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, OutsideError> {
        let failed = |why: String| OutsideError::Secure { host: host.to_owned(), why };
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(bare).map_err(|error| failed(error.to_string()))?;
        match timeout(HANDSHAKE_MAX, self.tls.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed(LATE.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::RefCell, net::Ipv4Addr};

    #[tokio::test]
    async fn of_a_name_with_many_addresses_only_the_first_are_looked_at() {
        let names = Names::fixed(|_| {
            (0..5_000_u32).map(|low| Ipv4Addr::from_bits(0x0a00_0000 | low).into()).collect()
        });
        let seen = RefCell::new(Vec::new());
        let deny = |address: IpAddr| {
            seen.borrow_mut().push(address);
            false
        };
        let said = Outside::of_names(names).connect("many.test", 80, deny).await.expect_err("denied");
        let first: IpAddr = "10.0.0.0".parse().expect("an address");
        assert!(matches!(said, OutsideError::Address { address, .. } if address == first), "{said}");
        assert_eq!(said.to_string(), "many.test is at no address that may be reached");
        assert_eq!(seen.borrow().len(), FOUND_MAX);
    }
}
