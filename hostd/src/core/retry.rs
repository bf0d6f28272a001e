//! Whether a call of a model that failed is tried again, and when. Knows statuses and words, not providers.

/// What a failure is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// It may be better in a moment.
    Passing,
    /// The same call fails for ever: a wrong key, no such model, a quota that is used up.
    Permanent,
    /// This one request is wrong; whoever made it may make a better one.
    Request,
}

/// How long is waited before another try.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    pub tries_max: u32,
    pub first_ms: u64,
    pub longest_ms: u64,
    /// What a provider may ask for. Who asks for more is not waited for.
    pub told_max_ms: u64,
}

/// Each wait is so much longer than the one before.
const GROWTH: u64 = 4;

impl Default for Backoff {
    fn default() -> Self {
        Self { tries_max: 4, first_ms: 500, longest_ms: 8_000, told_max_ms: 60_000 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Again {
        wait_ms: u64,
    },
    /// Passed on to whoever asked.
    Stop {
        permanent: bool,
    },
}

/// Of a provider's status, none where it gave none, with its words.
pub fn nature(status: Option<u16>, words: &str) -> Nature {
    match status {
        None | Some(408 | 409 | 425 | 500..) => Nature::Passing,
        Some(429) if is_used_up(words) => Nature::Permanent,
        Some(429) => Nature::Passing,
        Some(401 | 402 | 403 | 404 | 407 | 410 | 451) => Nature::Permanent,
        // Some say with 400 that the key is wrong or the account is empty.
        Some(400) if is_bad_account(words) => Nature::Permanent,
        // Not an error, and yet not an answer: a redirect for example.
        Some(..400) => Nature::Permanent,
        Some(_) => Nature::Request,
    }
}

/// Of an error within an answer that had begun well: the kind that it names itself.
pub fn nature_of_kind(kind: &str) -> Nature {
    const FOR_EVER: [&str; 9] = [
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
    const OF_REQUEST: [&str; 5] = [
        "invalid_request_error",
        "request_too_large",
        "context_length_exceeded",
        "invalid_prompt",
        "INVALID_ARGUMENT",
    ];
    if FOR_EVER.contains(&kind) {
        Nature::Permanent
    } else if OF_REQUEST.contains(&kind) {
        Nature::Request
    } else {
        Nature::Passing
    }
}

/// After so many tries. `told_ms` is what the provider asks to wait, `jitter` spreads those who wait together.
pub fn next(nature: Nature, tries: u32, told_ms: Option<u64>, jitter: u8, backoff: &Backoff) -> Next {
    match nature {
        Nature::Permanent => return Next::Stop { permanent: true },
        Nature::Request => return Next::Stop { permanent: false },
        Nature::Passing if tries >= backoff.tries_max => return Next::Stop { permanent: true },
        Nature::Passing => {}
    }
    if told_ms.is_some_and(|told_ms| told_ms > backoff.told_max_ms) {
        return Next::Stop { permanent: true };
    }
    let grown = GROWTH.saturating_pow(tries.saturating_sub(1)).saturating_mul(backoff.first_ms);
    let wait_ms = grown.min(backoff.longest_ms);
    // Between three quarters of it and all of it.
    let spread_ms = wait_ms - wait_ms / 4 * u64::from(jitter) / 255;
    Next::Again { wait_ms: spread_ms.max(told_ms.unwrap_or(0)) }
}

/// What is said of a quota that does not fill up again by waiting. A rate that is told with a time to wait does.
fn is_used_up(words: &str) -> bool {
    let says = |what: &str| words.contains(what);
    if says("insufficient_quota") || says("PerDay") || says("credit balance") || says("billing_") {
        return true;
    }
    says("billing") && !says("retryDelay")
}

fn is_bad_account(words: &str) -> bool {
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
            (None, "", Nature::Passing),
            (Some(408), "", Nature::Passing),
            (Some(409), "", Nature::Passing),
            (Some(429), "slow down", Nature::Passing),
            (Some(429), r#"{"error":{"code":"insufficient_quota"}}"#, Nature::Permanent),
            (Some(429), "please check your plan and billing details", Nature::Permanent),
            (Some(429), google, Nature::Passing),
            (Some(429), r#"retryDelay, GenerateRequestsPerDayPerProject"#, Nature::Permanent),
            (Some(500), "", Nature::Passing),
            (Some(503), "", Nature::Passing),
            (Some(529), "", Nature::Passing),
            (Some(599), "", Nature::Passing),
            (Some(401), "", Nature::Permanent),
            (Some(402), "", Nature::Permanent),
            (Some(403), "", Nature::Permanent),
            (Some(404), "", Nature::Permanent),
            (Some(301), "", Nature::Permanent),
            (Some(101), "", Nature::Permanent),
            (Some(400), "prompt is too long", Nature::Request),
            (Some(400), "Your credit balance is too low", Nature::Permanent),
            (Some(400), "API key not valid. Please pass a valid API key.", Nature::Permanent),
            (Some(413), "", Nature::Request),
            (Some(422), "", Nature::Request),
            (Some(418), "", Nature::Request),
        ];
        for (status, words, expected) in table {
            assert_eq!(nature(status, words), expected, "{status:?} {words}");
        }
    }

    #[test]
    fn waits_grow_and_end_and_what_is_told_is_honoured_within_reason() {
        let backoff = Backoff::default();
        let at = |tries, told_ms, jitter| next(Nature::Passing, tries, told_ms, jitter, &backoff);
        let again = |wait_ms| Next::Again { wait_ms };
        assert_eq!(at(1, None, 0), again(500));
        assert_eq!(at(1, None, 255), again(375));
        assert_eq!(at(2, None, 0), again(2_000));
        assert_eq!(at(3, None, 0), again(8_000));
        assert_eq!(at(4, None, 0), Next::Stop { permanent: true });
        assert_eq!(at(1, Some(3_000), 9), again(3_000));
        assert_eq!(at(2, Some(60_000), 9), again(60_000));
        assert_eq!(at(1, Some(60_001), 9), Next::Stop { permanent: true });
        assert_eq!(next(Nature::Permanent, 1, None, 0, &backoff), Next::Stop { permanent: true });
        assert_eq!(next(Nature::Request, 1, None, 0, &backoff), Next::Stop { permanent: false });
    }

    proptest! {
        #[test]
        fn it_ends_and_never_waits_for_long(
            tries in 0_u32..100, told_ms in proptest::option::of(any::<u64>()), jitter: u8,
        ) {
            let backoff = Backoff::default();
            match next(Nature::Passing, tries, told_ms, jitter, &backoff) {
                Next::Again { wait_ms } => {
                    prop_assert!(tries < backoff.tries_max);
                    prop_assert!(wait_ms <= backoff.told_max_ms);
                    prop_assert!(wait_ms >= told_ms.unwrap_or(0));
                }
                Next::Stop { permanent } => prop_assert!(permanent),
            }
        }
    }
}
