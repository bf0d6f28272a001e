//! So many at once, then so many a second.

#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub burst: u32,
    pub per_second: u32,
}

#[derive(Debug)]
pub struct Allowance {
    rate: Rate,
    /// In thousandths.
    left: u64,
    since_ms: u64,
}

impl Allowance {
    pub fn new(rate: Rate, now_ms: u64) -> Self {
        Self { rate, left: u64::from(rate.burst) * 1000, since_ms: now_ms }
    }

    /// Takes one, if there is one.
    pub fn take(&mut self, now_ms: u64) -> bool {
        // A clock that jumps back gives nothing, forward at most a full measure.
        let earned = now_ms.saturating_sub(self.since_ms).saturating_mul(self.rate.per_second.into());
        self.left = self.left.saturating_add(earned).min(u64::from(self.rate.burst) * 1000);
        self.since_ms = now_ms;
        let enough = self.left >= 1000;
        self.left -= if enough { 1000 } else { 0 };
        enough
    }

    /// It was not used after all.
    pub fn give_back(&mut self) {
        self.left = self.left.saturating_add(1000).min(u64::from(self.rate.burst) * 1000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_at_once_and_then_so_many_a_second() {
        let mut allowance = Allowance::new(Rate { burst: 100, per_second: 10 }, 1_000);
        let taken = |allowance: &mut Allowance, now_ms| (0..1000).filter(|_| allowance.take(now_ms)).count();
        assert_eq!(taken(&mut allowance, 1_000), 100);
        assert_eq!(taken(&mut allowance, 2_000), 10);
        assert_eq!(taken(&mut allowance, 1_500), 0, "the clock jumped back");
        assert_eq!(taken(&mut allowance, u64::MAX), 100);
    }
}
