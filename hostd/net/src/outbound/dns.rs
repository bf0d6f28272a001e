//! Looks up names with the DNS configuration of the host. Not through the C library: hostd is linked
//! statically.

use hickory_resolver::{Resolver, TokioResolver, net::runtime::TokioRuntimeProvider};
use std::{net::IpAddr, sync::Arc};
use tracing::warn;

#[derive(Clone)]
pub struct DnsResolver {
    backend: Backend,
}

#[cfg(any(test, feature = "test-support"))]
type FixedLookup = dyn Fn(&str) -> Vec<IpAddr> + Send + Sync;

#[derive(Clone)]
enum Backend {
    Resolver(Arc<TokioResolver>),
    /// The host has no usable DNS configuration. Names cannot be looked up then, and everything else works.
    Unavailable(Arc<str>),
    #[cfg(any(test, feature = "test-support"))]
    Fixed(Arc<FixedLookup>),
}

impl DnsResolver {
    /// Reads `/etc/resolv.conf` and `/etc/hosts`.
    pub fn from_host_config() -> Self {
        let built = Resolver::builder(TokioRuntimeProvider::default()).and_then(|builder| builder.build());
        Self::from_build_result(built.map_err(|error| error.to_string()))
    }

    fn from_build_result(built: Result<TokioResolver, String>) -> Self {
        let backend = match built {
            Ok(resolver) => Backend::Resolver(Arc::new(resolver)),
            Err(error) => {
                warn!(error, "DNS lookups are disabled: fix /etc/resolv.conf and restart hostd");
                Backend::Unavailable(error.into())
            }
        };
        Self { backend }
    }

    /// Calls a function of the test for each lookup.
    #[cfg(any(test, feature = "test-support"))]
    pub fn fixed(answer: impl Fn(&str) -> Vec<IpAddr> + Send + Sync + 'static) -> Self {
        Self { backend: Backend::Fixed(Arc::new(answer)) }
    }

    /// All addresses of a name, or the address that it spells; none where the name does not exist.
    pub async fn lookup(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        match &self.backend {
            Backend::Resolver(resolver) => resolve(resolver, host).await,
            Backend::Unavailable(why) => Err(format!("DNS is not configured on this host ({why})")),
            #[cfg(any(test, feature = "test-support"))]
            Backend::Fixed(answer) => Ok(answer(host)),
        }
    }
}

async fn resolve(resolver: &TokioResolver, host: &str) -> Result<Vec<IpAddr>, String> {
    // Fully qualified: with the search list of the host it would be another name.
    let whole = format!("{}.", host.trim_end_matches('.'));
    match resolver.lookup_ip(whole).await {
        Ok(found) => Ok(found.iter().collect()),
        Err(error) if error.is_no_records_found() || error.is_nx_domain() => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_dns_every_name_is_an_error_and_addresses_are_themselves() {
        let resolver = DnsResolver::from_build_result(Err("no such file".to_owned()));
        for _ in 0..2 {
            let said = resolver.lookup("example.com").await.expect_err("no DNS server");
            assert_eq!(said, "DNS is not configured on this host (no such file)");
        }
        let address: IpAddr = "203.0.113.1".parse().expect("an address");
        assert_eq!(resolver.lookup("203.0.113.1").await, Ok(vec![address]));
    }
}
