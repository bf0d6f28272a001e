//! New ids: lower-case ULIDs from the time and random bits of the kernel.

use super::clock::wall_ms;
use std::hash::{BuildHasher, RandomState};

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TIME_CHARS: u32 = 10;
const RANDOM_CHARS: u32 = 16;

pub fn new() -> String {
    // Each RandomState is keyed by the kernel's random numbers; two of them give the 80 bits.
    let random =
        u128::from(RandomState::new().hash_one(0)) << 64 | u128::from(RandomState::new().hash_one(1));
    let digits = |value: u128, count: u32| {
        (0..count).rev().map(move |i| char::from(ALPHABET[((value >> (5 * i)) & 31) as usize]))
    };
    digits(u128::from(wall_ms()), TIME_CHARS).chain(digits(random, RANDOM_CHARS)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_different_and_sort_by_time() {
        let ids: Vec<String> = (0..1000).map(|_| new()).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 26 && id[..10] >= ids[0][..10]));
    }
}
