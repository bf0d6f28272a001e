//! What becomes of a delivery after an attempt.

/// The first wait after a failure; each one after it is twice as long, up to the longest.
const FIRST_WAIT_MS: u64 = 1_000;
const WAIT_MAX_MS: u64 = 3_600_000;

/// How often and for how long a delivery is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    pub attempts_max: u64,
    /// From the first time that it was due.
    pub age_max_ms: u64,
}

/// The attempts so far, with the one that just ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tries {
    pub attempts: u64,
    /// Since when it is tried.
    pub since_ms: u64,
}

/// What the endpoint answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookAnswer {
    /// A response, and the wait that it asks for.
    Status { code: u16, retry_after_ms: Option<u64> },
    /// No response: refused by the address policy, not reached, or too slow.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Delivered,
    Retry {
        wait_ms: u64,
    },
    /// Given up.
    Dead,
    /// The endpoint wants no more deliveries.
    Gone,
}

impl WebhookAnswer {
    pub fn status(self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(code),
            Self::None => None,
        }
    }

    pub fn is_success(self) -> bool {
        matches!(self.status(), Some(200..=299))
    }
}

/// Decides after an attempt. `jitter` is any number: the wait is between half of the full one and all of it.
pub fn decide(
    answer: WebhookAnswer,
    tries: Tries,
    now_ms: u64,
    jitter: u64,
    policy: &RetryPolicy,
) -> Verdict {
    match answer {
        WebhookAnswer::Status { code: 410, .. } => return Verdict::Gone,
        answer if answer.is_success() => return Verdict::Delivered,
        WebhookAnswer::Status { .. } | WebhookAnswer::None => {}
    }
    let age_ms = now_ms.saturating_sub(tries.since_ms);
    if tries.attempts >= policy.attempts_max || age_ms >= policy.age_max_ms {
        return Verdict::Dead;
    }
    let doublings = u32::try_from(tries.attempts.saturating_sub(1)).unwrap_or(u32::MAX).min(32);
    let full_ms = FIRST_WAIT_MS.saturating_mul(1 << doublings).min(WAIT_MAX_MS);
    let half_ms = full_ms / 2;
    let wait_ms = half_ms + jitter % (full_ms - half_ms + 1);
    let asked_ms = match answer {
        WebhookAnswer::Status { retry_after_ms, .. } => retry_after_ms.unwrap_or(0).min(WAIT_MAX_MS),
        WebhookAnswer::None => 0,
    };
    Verdict::Retry { wait_ms: wait_ms.max(asked_ms) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POLICY: RetryPolicy = RetryPolicy { attempts_max: 20, age_max_ms: 86_400_000 };

    fn status(code: u16) -> WebhookAnswer {
        WebhookAnswer::Status { code, retry_after_ms: None }
    }

    #[test]
    fn an_answer_decides() {
        let slow = WebhookAnswer::Status { code: 429, retry_after_ms: Some(30_000) };
        let endless = WebhookAnswer::Status { code: 503, retry_after_ms: Some(u64::MAX) };
        let table = [
            (status(200), 1, 0, Verdict::Delivered),
            (status(204), 99, u64::MAX, Verdict::Delivered),
            (status(410), 1, 0, Verdict::Gone),
            (status(302), 1, 0, Verdict::Retry { wait_ms: 500 }),
            (status(500), 2, 0, Verdict::Retry { wait_ms: 1_000 }),
            (status(404), 5, 0, Verdict::Retry { wait_ms: 8_000 }),
            (WebhookAnswer::None, 19, 0, Verdict::Retry { wait_ms: 1_800_000 }),
            (slow, 1, 0, Verdict::Retry { wait_ms: 30_000 }),
            (endless, 1, 0, Verdict::Retry { wait_ms: 3_600_000 }),
            (status(500), 20, 0, Verdict::Dead),
            (status(500), 1, 86_400_000, Verdict::Dead),
        ];
        for (answer, attempts, now_ms, expected) in table {
            let tries = Tries { attempts, since_ms: 0 };
            let verdict = decide(answer, tries, now_ms, 0, &POLICY);
            assert_eq!(verdict, expected, "{answer:?} {attempts} {now_ms}");
        }
    }

    proptest! {
        #[test]
        fn a_wait_is_bounded_and_every_delivery_ends(jitter in any::<u64>(), code in 300_u16..600) {
            prop_assume!(code != 410);
            let (mut now_ms, mut attempts) = (5, 0);
            loop {
                attempts += 1;
                let tries = Tries { attempts, since_ms: 5 };
                match decide(status(code), tries, now_ms, jitter, &POLICY) {
                    Verdict::Retry { wait_ms } => {
                        prop_assert!((FIRST_WAIT_MS / 2..=WAIT_MAX_MS).contains(&wait_ms));
                        now_ms += wait_ms;
                    }
                    Verdict::Dead => break,
                    Verdict::Delivered | Verdict::Gone => prop_assert!(false),
                }
            }
            prop_assert!(attempts <= POLICY.attempts_max);
        }
    }
}
