//! Chance that can be repeated: every test that uses it prints its seed.

/// A small generator (xorshift64*): good enough to cut, to wait and to fill.
#[derive(Debug, Clone)]
pub struct Random(u64);

/// A fresh seed, or the one in `SLIPWAY_SEED`. It is printed, so that a failure shows it.
pub fn seed() -> u64 {
    let given = std::env::var("SLIPWAY_SEED").ok().and_then(|text| text.parse().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = given.unwrap_or_else(|| now.map_or(1, |since| since.as_nanos() as u64 | 1));
    eprintln!("SLIPWAY_SEED={seed}");
    seed
}

impl Random {
    /// With [`seed`].
    pub fn seeded() -> Self {
        Self::from_seed(seed())
    }

    pub fn from_seed(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Another generator that goes its own way, for another task.
    pub fn branch(&mut self) -> Self {
        Self::from_seed(self.number())
    }

    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number from 0 to `end` - 1.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.number() >> 11) % end.max(1)
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| (self.number() >> 32) as u8).collect()
    }
}
