//! The addresses of this machine itself: what listens there is not for sandboxes, public or not.

use super::limits::OWN_FRESH_MS;
use crate::core::egress::faces;
use nix::ifaddrs::getifaddrs;
use std::{
    collections::HashSet,
    io,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Asked for again now and then: interfaces come and go.
#[derive(Default)]
pub struct Own {
    known: Mutex<Option<(Instant, HashSet<IpAddr>)>>,
}

impl Own {
    /// Whether it, or an address within it, is one of ours.
    pub fn has(&self, address: IpAddr) -> io::Result<bool> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |at: &Instant| at.elapsed() < Duration::from_millis(OWN_FRESH_MS);
        if !known.as_ref().is_some_and(|(at, _)| fresh(at)) {
            *known = Some((Instant::now(), addresses()?));
        }
        let all = known.as_ref().map(|(_, all)| all);
        Ok(all.is_some_and(|all| faces(address).iter().any(|face| all.contains(face))))
    }
}

fn addresses() -> io::Result<HashSet<IpAddr>> {
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
    fn loopback_is_ours_in_every_form_and_the_world_is_not() {
        let own = Own::default();
        let has = |text: &str| own.has(text.parse().expect("an address")).expect("interfaces are listed");
        assert!(has("127.0.0.1") && has("::ffff:127.0.0.1") && has("64:ff9b::127.0.0.1"));
        assert!(!has("198.51.100.77"));
    }
}
