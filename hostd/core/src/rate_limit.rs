//! A token bucket: a burst, then a rate per second. Time is an argument.

#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub burst: u32,
    pub per_second: u32,
}

#[derive(Debug)]
pub struct RateLimiter {
    rate: Rate,
    /// In thousandths of a token.
    tokens_milli: u64,
    since_ms: u64,
}

impl RateLimiter {
    pub fn new(rate: Rate, now_ms: u64) -> Self {
        Self { rate, tokens_milli: u64::from(rate.burst) * 1000, since_ms: now_ms }
    }

    /// Takes one token, if there is one.
    pub fn try_acquire(&mut self, now_ms: u64) -> bool {
        // A clock that jumps back earns nothing; one that jumps forward at most a full bucket.
        let earned = now_ms.saturating_sub(self.since_ms).saturating_mul(self.rate.per_second.into());
        self.tokens_milli = self.tokens_milli.saturating_add(earned).min(u64::from(self.rate.burst) * 1000);
        self.since_ms = now_ms;
        let enough = self.tokens_milli >= 1000;
        self.tokens_milli -= if enough { 1000 } else { 0 };
        enough
    }

    /// Returns a token that was not used.
    pub fn refund(&mut self) {
        self.tokens_milli = self.tokens_milli.saturating_add(1000).min(u64::from(self.rate.burst) * 1000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_the_rate() {
        let mut limiter = RateLimiter::new(Rate { burst: 100, per_second: 10 }, 1_000);
        let taken =
            |limiter: &mut RateLimiter, now_ms| (0..1000).filter(|_| limiter.try_acquire(now_ms)).count();
        assert_eq!(taken(&mut limiter, 1_000), 100);
        assert_eq!(taken(&mut limiter, 2_000), 10);
        assert_eq!(taken(&mut limiter, 1_500), 0, "the clock jumped back");
        assert_eq!(taken(&mut limiter, u64::MAX), 100);
    }
}
