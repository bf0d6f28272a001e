//! Decides whether and when a failed model call is retried. Knows statuses and error messages, not providers.

/// The kind of a failure, which decides about retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// A retry may succeed.
    Transient,
    /// Every call fails: a wrong key, an unknown model, an exhausted quota.
    Permanent,
    /// This request is wrong; the agent may send a better one.
    Request,
}

/// How often a call is attempted, and how long to wait in between.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    pub attempts_max: u32,
    pub first_ms: u64,
    pub wait_max_ms: u64,
    /// The longest `Retry-After` that is honoured; a provider that asks for more gets no retry.
    pub retry_after_max_ms: u64,
}

/// Factor from one wait to the next.
const GROWTH_FACTOR: u64 = 4;

impl Default for Backoff {
    fn default() -> Self {
        Self { attempts_max: 4, first_ms: 500, wait_max_ms: 8_000, retry_after_max_ms: 60_000 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    Retry {
        wait_ms: u64,
    },
    /// The failure goes to the agent.
    Stop {
        permanent: bool,
    },
}

/// Classifies a response by its status and body; without a status there was no response.
pub fn classify_status(status: Option<u16>, body: &str) -> FailureKind {
    match status {
        None | Some(408 | 409 | 425 | 500..) => FailureKind::Transient,
        Some(429) if is_quota_exhausted(body) => FailureKind::Permanent,
        Some(429) => FailureKind::Transient,
        Some(401 | 402 | 403 | 404 | 407 | 410 | 451) => FailureKind::Permanent,
        // Some providers report a wrong key or an empty account with 400.
        Some(400) if is_account_problem(body) => FailureKind::Permanent,
        // Neither an error nor an answer, for example a redirect.
        Some(..400) => FailureKind::Permanent,
        Some(_) => FailureKind::Request,
    }
}

/// Classifies an error in the body of a successful response by its own name of the kind.
pub fn classify_error_kind(kind: &str) -> FailureKind {
    const PERMANENT: [&str; 9] = [
        "authentication_error",
        "permission_error",
        "billing_error",
        "insufficient_quota",
        "invalid_api_key",
        "model_not_found",
        "UNAUTHENTICATED",
        "PERMISSION_DENIED",
        "usage_not_included",
    ];
    const BAD_REQUEST: [&str; 5] = [
        "invalid_request_error",
        "request_too_large",
        "context_length_exceeded",
        "invalid_prompt",
        "INVALID_ARGUMENT",
    ];
    if PERMANENT.contains(&kind) {
        FailureKind::Permanent
    } else if BAD_REQUEST.contains(&kind) {
        FailureKind::Request
    } else {
        FailureKind::Transient
    }
}

/// Decides after so many failed attempts. `retry_after_ms` is what the provider asks to wait; `jitter`
/// spreads calls that wait at the same time.
pub fn decide_retry(
    failure: FailureKind,
    attempts: u32,
    retry_after_ms: Option<u64>,
    jitter: u8,
    backoff: &Backoff,
) -> RetryDecision {
    match failure {
        FailureKind::Permanent => return RetryDecision::Stop { permanent: true },
        FailureKind::Request => return RetryDecision::Stop { permanent: false },
        FailureKind::Transient if attempts >= backoff.attempts_max => {
            return RetryDecision::Stop { permanent: true };
        }
        FailureKind::Transient => {}
    }
    if retry_after_ms.is_some_and(|retry_after_ms| retry_after_ms > backoff.retry_after_max_ms) {
        return RetryDecision::Stop { permanent: true };
    }
    let grown = GROWTH_FACTOR.saturating_pow(attempts.saturating_sub(1)).saturating_mul(backoff.first_ms);
    let wait_ms = grown.min(backoff.wait_max_ms);
    // Jitter takes off up to a quarter.
    let spread_ms = wait_ms - wait_ms / 4 * u64::from(jitter) / 255;
    RetryDecision::Retry { wait_ms: spread_ms.max(retry_after_ms.unwrap_or(0)) }
}

/// Whether a 429 is about a quota that waiting does not refill. A rate limit with a time to wait refills.
fn is_quota_exhausted(body: &str) -> bool {
    let says = |what: &str| body.contains(what);
    if says("insufficient_quota") || says("PerDay") || says("credit balance") || says("billing_") {
        return true;
    }
    says("billing") && !says("retryDelay")
}

fn is_account_problem(body: &str) -> bool {
    ["credit balance", "API_KEY_INVALID", "API key not valid", "invalid_api_key", "billing_"]
        .iter()
        .any(|what| body.contains(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn statuses_and_messages_say_whether_a_retry_may_help() {
        let google = r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details","details":[{"retryDelay":"34s"}]}}"#;
        let table = [
            (None, "", FailureKind::Transient),
            (Some(408), "", FailureKind::Transient),
            (Some(409), "", FailureKind::Transient),
            (Some(429), "slow down", FailureKind::Transient),
            (Some(429), r#"{"error":{"code":"insufficient_quota"}}"#, FailureKind::Permanent),
            (Some(429), "please check your plan and billing details", FailureKind::Permanent),
            (Some(429), google, FailureKind::Transient),
            (Some(429), r#"retryDelay, GenerateRequestsPerDayPerProject"#, FailureKind::Permanent),
            (Some(500), "", FailureKind::Transient),
            (Some(503), "", FailureKind::Transient),
            (Some(529), "", FailureKind::Transient),
            (Some(599), "", FailureKind::Transient),
            (Some(401), "", FailureKind::Permanent),
            (Some(402), "", FailureKind::Permanent),
            (Some(403), "", FailureKind::Permanent),
            (Some(404), "", FailureKind::Permanent),
            (Some(301), "", FailureKind::Permanent),
            (Some(101), "", FailureKind::Permanent),
            (Some(400), "prompt is too long", FailureKind::Request),
            (Some(400), "Your credit balance is too low", FailureKind::Permanent),
            (Some(400), "API key not valid. Please pass a valid API key.", FailureKind::Permanent),
            (Some(413), "", FailureKind::Request),
            (Some(422), "", FailureKind::Request),
            (Some(418), "", FailureKind::Request),
        ];
        for (status, body, expected) in table {
            assert_eq!(classify_status(status, body), expected, "{status:?} {body}");
        }
    }

    #[test]
    fn waits_grow_and_end_and_retry_after_is_honoured_within_bounds() {
        let backoff = Backoff::default();
        let at = |attempts, retry_after_ms, jitter| {
            decide_retry(FailureKind::Transient, attempts, retry_after_ms, jitter, &backoff)
        };
        let again = |wait_ms| RetryDecision::Retry { wait_ms };
        assert_eq!(at(1, None, 0), again(500));
        assert_eq!(at(1, None, 255), again(375));
        assert_eq!(at(2, None, 0), again(2_000));
        assert_eq!(at(3, None, 0), again(8_000));
        assert_eq!(at(4, None, 0), RetryDecision::Stop { permanent: true });
        assert_eq!(at(1, Some(3_000), 9), again(3_000));
        assert_eq!(at(2, Some(60_000), 9), again(60_000));
        assert_eq!(at(1, Some(60_001), 9), RetryDecision::Stop { permanent: true });
        assert_eq!(
            decide_retry(FailureKind::Permanent, 1, None, 0, &backoff),
            RetryDecision::Stop { permanent: true }
        );
        assert_eq!(
            decide_retry(FailureKind::Request, 1, None, 0, &backoff),
            RetryDecision::Stop { permanent: false }
        );
    }

    proptest! {
        #[test]
        fn retries_end_and_never_wait_for_long(
            attempts in 0_u32..100, retry_after_ms in proptest::option::of(any::<u64>()), jitter: u8,
        ) {
            let backoff = Backoff::default();
            match decide_retry(FailureKind::Transient, attempts, retry_after_ms, jitter, &backoff) {
                RetryDecision::Retry { wait_ms } => {
                    prop_assert!(attempts < backoff.attempts_max);
                    prop_assert!(wait_ms <= backoff.retry_after_max_ms);
                    prop_assert!(wait_ms >= retry_after_ms.unwrap_or(0));
                }
                RetryDecision::Stop { permanent } => prop_assert!(permanent),
            }
        }
    }
}
