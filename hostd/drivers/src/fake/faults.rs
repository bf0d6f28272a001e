//! Random faults of verbs, by a seed, so that a run can be repeated.

/// Random numbers from a seed (splitmix64).
#[derive(Debug, Clone)]
pub struct SeededRng(pub u64);

impl SeededRng {
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Fails and does nothing.
    Fails,
    /// Fails because the backend is away.
    Unavailable,
    /// Does its work and reports a failure.
    FailsAfter,
    Hangs,
    HangsAfter,
}

/// Injects a fault into `percent` of the verbs.
#[derive(Debug, Clone)]
pub struct Faults {
    rng: SeededRng,
    percent: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self { rng: SeededRng(0), percent: 0 }
    }
}

impl Faults {
    pub fn new(seed: u64, percent: u64) -> Self {
        Self { rng: SeededRng(seed), percent }
    }

    pub(super) fn roll(&mut self, _what: &str) -> Fault {
        if self.rng.below(100) >= self.percent {
            return Fault::None;
        }
        match self.rng.below(5) {
            0 => Fault::Fails,
            1 => Fault::Unavailable,
            2 => Fault::FailsAfter,
            3 => Fault::Hangs,
            _ => Fault::HangsAfter,
        }
    }
}
