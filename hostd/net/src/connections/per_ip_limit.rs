//! Limits the connections of each address: one address must not keep others out.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A client, as the limit counts it: an IPv4 address, or the /64 network that one host has of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpPrefix(u128);

impl IpPrefix {
    /// None for loopback: a proxy on this host speaks for many clients.
    pub fn of(address: IpAddr) -> Option<Self> {
        match address.to_canonical() {
            address if address.is_loopback() => None,
            IpAddr::V4(address) => Some(Self(address.to_ipv6_mapped().to_bits())),
            IpAddr::V6(address) => Some(Self(address.to_bits() >> 64 << 64)),
        }
    }
}

/// Cheap to clone; clones share the counts.
#[derive(Clone, Default)]
pub struct PerIpLimit {
    counts: Arc<Mutex<HashMap<IpPrefix, usize>>>,
}

/// The permit of one connection, returned when dropped.
pub struct PerIpPermit {
    key: Option<(PerIpLimit, IpPrefix)>,
}

impl PerIpLimit {
    /// Takes a permit, if the address has fewer than this.
    pub fn take(&self, prefix: Option<IpPrefix>, max: usize) -> Option<PerIpPermit> {
        let Some(prefix) = prefix else { return Some(PerIpPermit { key: None }) };
        let mut counts = self.counts();
        let count = counts.get(&prefix).copied().unwrap_or_default();
        if count >= max {
            return None;
        }
        counts.insert(prefix, count + 1);
        Some(PerIpPermit { key: Some((self.clone(), prefix)) })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpPrefix, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PerIpPermit {
    fn drop(&mut self) {
        let Some((per_ip, prefix)) = &self.key else { return };
        if let Entry::Occupied(mut count) = per_ip.counts().entry(*prefix) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(address: &str) -> Option<IpPrefix> {
        IpPrefix::of(address.parse().unwrap())
    }

    #[test]
    fn addresses_that_count_as_one_client() {
        for (one, other) in [("2001:db8::1", "2001:db8::2:3:4:5"), ("192.0.2.1", "::ffff:192.0.2.1")] {
            assert_eq!(prefix(one), prefix(other));
        }
        for (one, other) in [("2001:db8::1", "2001:db8:0:1::1"), ("192.0.2.1", "192.0.2.2")] {
            assert_ne!(prefix(one), prefix(other));
        }
        for here in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(prefix(here), None, "{here}");
        }
    }

    #[test]
    fn one_address_has_its_limit_and_returns_its_permits() {
        let per_ip = PerIpLimit::default();
        let (one, other) = (prefix("192.0.2.1"), prefix("192.0.2.2"));
        let first = per_ip.take(one, 2).unwrap();
        let _second = per_ip.take(one, 2).unwrap();
        assert!(per_ip.take(one, 2).is_none());
        assert!(per_ip.take(other, 2).is_some());
        drop(first);
        assert!(per_ip.take(one, 2).is_some());
        let here: Vec<_> = (0..9).map(|_| per_ip.take(None, 2)).collect();
        assert!(here.iter().all(Option::is_some));
        drop(here);
        assert_eq!(per_ip.counts().len(), 1, "an address without connections is dropped");
    }
}
