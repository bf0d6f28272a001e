//! When a failed request is repeated.

use hostd_core::{Backoff, FailureKind, RetryDecision, decide_retry};
use hyper::{HeaderMap, StatusCode, header::RETRY_AFTER};
use std::time::{Duration, SystemTime};

/// Returns how long to wait after so many failed attempts that another one may follow; none for no other.
pub fn wait_after(attempts: u32, retry_after_ms: Option<u64>, backoff: &Backoff) -> Option<Duration> {
    match decide_retry(FailureKind::Transient, attempts, retry_after_ms, jitter(), backoff) {
        RetryDecision::Retry { wait_ms } => Some(Duration::from_millis(wait_ms)),
        RetryDecision::Stop { .. } => None,
    }
}

/// Whether another attempt may get another status.
pub fn is_transient(status: StatusCode) -> bool {
    let passing = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
    status.is_server_error() || passing.contains(&status)
}

/// Returns the time that a response asks to wait, in seconds or as a date.
pub fn retry_after_ms(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(seconds.saturating_mul(1_000));
    }
    let then = httpdate::parse_http_date(text).ok()?;
    u64::try_from(then.duration_since(now).unwrap_or_default().as_millis()).ok()
}

fn jitter() -> u8 {
    let mut byte = [0];
    // Without randomness the requests that wait at the same time are repeated at the same time, no worse.
    let _ = getrandom::fill(&mut byte);
    byte[0]
}

#[cfg(test)]
mod tests {
    use super::{super::waits::Waits, *};
    use crate::limits::{REQUEST_ATTEMPTS_MAX, RETRY_AFTER_MAX_MS};

    #[test]
    fn a_wait_is_read_from_a_response() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (value, expected) in [
            ("3", Some(3_000)),
            ("Sun, 06 Nov 1994 08:49:39 GMT", Some(2_000)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("99999999999999999999", None),
            ("-1", None),
            ("soon", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().expect("a value"))]);
            assert_eq!(retry_after_ms(&headers, now), expected, "{value}");
        }
    }

    #[test]
    fn attempts_end_and_no_registry_asks_for_a_long_wait() {
        let backoff = Waits::default().backoff;
        assert!(wait_after(1, None, &backoff).is_some());
        assert!(wait_after(1, Some(RETRY_AFTER_MAX_MS), &backoff).is_some());
        assert_eq!(wait_after(1, Some(RETRY_AFTER_MAX_MS + 1), &backoff), None);
        assert_eq!(wait_after(REQUEST_ATTEMPTS_MAX, None, &backoff), None);
    }
}
