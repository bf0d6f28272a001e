//! Token bucket: a burst of requests, then a steady rate.

#[derive(Debug, Clone)]
pub struct TokenBucket {
    per_second: u32,
    burst: u32,
    /// Thousandths of a token, so that a millisecond counts.
    milli: u64,
    at_ms: u64,
}

impl TokenBucket {
    pub fn new(per_second: u32, burst: u32, now_ms: u64) -> Self {
        Self { per_second, burst, milli: u64::from(burst) * 1000, at_ms: now_ms }
    }

    /// Takes a token; whether there was one.
    pub fn take(&mut self, now_ms: u64) -> bool {
        let passed_ms = now_ms.saturating_sub(self.at_ms);
        self.at_ms = self.at_ms.max(now_ms);
        let full = u64::from(self.burst) * 1000;
        self.milli =
            self.milli.saturating_add(passed_ms.saturating_mul(u64::from(self.per_second))).min(full);
        let granted = self.milli >= 1000;
        self.milli -= if granted { 1000 } else { 0 };
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_a_steady_rate() {
        let mut bucket = TokenBucket::new(10, 3, 0);
        let taken = |bucket: &mut TokenBucket, now| (0..100).filter(|_| bucket.take(now)).count();
        assert_eq!(taken(&mut bucket, 0), 3);
        assert_eq!(taken(&mut bucket, 99), 0);
        assert_eq!(taken(&mut bucket, 100), 1);
        assert_eq!(taken(&mut bucket, 50), 0, "a clock that goes back gives nothing");
        assert_eq!(taken(&mut bucket, 1_000_000), 3);
    }
}
