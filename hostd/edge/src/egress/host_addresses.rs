//! The addresses of this machine: sandboxes must not reach what listens there, even on public addresses.

use super::limits::HOST_ADDRESSES_FRESH_MS;
use hostd_core::egress::with_embedded;
use nix::ifaddrs::getifaddrs;
use std::{
    collections::HashSet,
    io,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The addresses of all interfaces, refreshed now and then, since interfaces come and go.
#[derive(Default)]
pub struct HostAddresses {
    cached: Mutex<Option<(Instant, HashSet<IpAddr>)>>,
}

impl HostAddresses {
    /// Whether the address, or one embedded in it, belongs to this machine.
    pub fn contains(&self, address: IpAddr) -> io::Result<bool> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |at: &Instant| at.elapsed() < Duration::from_millis(HOST_ADDRESSES_FRESH_MS);
        if !cached.as_ref().is_some_and(|(at, _)| fresh(at)) {
            *cached = Some((Instant::now(), interface_addresses()?));
        }
        let all = cached.as_ref().map(|(_, all)| all);
        Ok(all.is_some_and(|all| with_embedded(address).iter().any(|form| all.contains(form))))
    }
}

fn interface_addresses() -> io::Result<HashSet<IpAddr>> {
    let all = getifaddrs()?.filter_map(|interface| {
        let address = interface.address?;
        let four = address.as_sockaddr_in().map(|four| IpAddr::V4(four.ip()));
        four.or_else(|| address.as_sockaddr_in6().map(|six| IpAddr::V6(six.ip())))
    });
    Ok(all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_belongs_to_the_host_in_every_form_and_other_addresses_do_not() {
        let host_addresses = HostAddresses::default();
        let has = |text: &str| {
            host_addresses.contains(text.parse().expect("an address")).expect("interfaces are listed")
        };
        assert!(has("127.0.0.1") && has("::ffff:127.0.0.1") && has("64:ff9b::127.0.0.1"));
        assert!(!has("198.51.100.77"));
    }
}
