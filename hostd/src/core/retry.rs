//! Whether a call of a model that failed is tried again, and when. Knows statuses and words, not providers.

/// What a failure is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// It may be better in a moment.
    Transient,
    /// The same call fails for ever: a wrong key, no such model, a quota that is used up.
    Permanent,
    /// This one request is wrong; whoever made it may make a better one.
    Request,
}

/// How long is waited before another try.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    pub attempts_max: u32,
    pub first_ms: u64,
    pub wait_max_ms: u64,
    /// What a provider may ask for. Who asks for more is not waited for.
    pub retry_after_max_ms: u64,
}

/// Each wait is so much longer than the one before.
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
    /// Passed on to whoever asked.
    Stop {
        permanent: bool,
    },
}

/// Of a provider's status, none where it gave none, with its words.
pub fn classify_status(status: Option<u16>, words: &str) -> FailureKind {
    match status {
        None | Some(408 | 409 | 425 | 500..) => FailureKind::Transient,
        Some(429) if is_quota_exhausted(words) => FailureKind::Permanent,
        Some(429) => FailureKind::Transient,
        Some(401 | 402 | 403 | 404 | 407 | 410 | 451) => FailureKind::Permanent,
        // Some say with 400 that the key is wrong or the account is empty.
        Some(400) if is_account_problem(words) => FailureKind::Permanent,
        // Not an error, and yet not an answer: a redirect for example.
        Some(..400) => FailureKind::Permanent,
        Some(_) => FailureKind::Request,
    }
}

/// Of an error within an answer that had begun well: the kind that it names itself.
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

/// After so many attempts. `retry_after_ms` is what the provider asks to wait, `jitter` spreads those who wait together.
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
    // Between three quarters of it and all of it.
    let spread_ms = wait_ms - wait_ms / 4 * u64::from(jitter) / 255;
    RetryDecision::Retry { wait_ms: spread_ms.max(retry_after_ms.unwrap_or(0)) }
}

/// What is said of a quota that does not fill up again by waiting. A rate that is told with a time to wait does.
fn is_quota_exhausted(words: &str) -> bool {
    let says = |what: &str| words.contains(what);
    if says("insufficient_quota") || says("PerDay") || says("credit balance") || says("billing_") {
        return true;
    }
    says("billing") && !says("retryDelay")
}

fn is_account_problem(words: &str) -> bool {
    ["credit balance", "API_KEY_INVALID", "API key not valid", "invalid_api_key", "billing_"]
        .iter()
        .any(|what| words.contains(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn statuses_and_words_say_whether_another_try_may_help() {
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
        for (status, words, expected) in table {
            assert_eq!(classify_status(status, words), expected, "{status:?} {words}");
        }
    }

    #[test]
    fn waits_grow_and_end_and_what_is_told_is_honoured_within_reason() {
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
        fn it_ends_and_never_waits_for_long(
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
