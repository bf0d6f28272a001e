//! How many connections each address has: one that takes all of them must not keep others out.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What counts as one: an address, or the network of 64 bits that one host has of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpPrefix(u128);

impl IpPrefix {
    /// None of what is on this host: a proxy may speak for everybody.
    pub fn of(address: IpAddr) -> Option<Self> {
        match address.to_canonical() {
            address if address.is_loopback() => None,
            IpAddr::V4(address) => Some(Self(address.to_ipv6_mapped().to_bits())),
            IpAddr::V6(address) => Some(Self(address.to_bits() >> 64 << 64)),
        }
    }
}

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct PerIpLimit {
    taken: Arc<Mutex<HashMap<IpPrefix, usize>>>,
}

/// One connection of an address, as long as this lives.
pub struct PerIpPermit {
    of: Option<(PerIpLimit, IpPrefix)>,
}

impl PerIpLimit {
    /// One more, if it has fewer than this.
    pub fn take(&self, prefix: Option<IpPrefix>, most: usize) -> Option<PerIpPermit> {
        let Some(prefix) = prefix else { return Some(PerIpPermit { of: None }) };
        let mut taken = self.taken();
        let count = taken.get(&prefix).copied().unwrap_or_default();
        if count >= most {
            return None;
        }
        taken.insert(prefix, count + 1);
        Some(PerIpPermit { of: Some((self.clone(), prefix)) })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<IpPrefix, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PerIpPermit {
    fn drop(&mut self) {
        let Some((per_ip, prefix)) = &self.of else { return };
        if let Entry::Occupied(mut count) = per_ip.taken().entry(*prefix) {
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
    fn who_counts_as_one() {
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
    fn one_address_has_its_share_and_gives_it_back() {
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
        assert_eq!(per_ip.taken().len(), 1, "who has none is forgotten");
    }
}
