//! Formats model calls and model use. Pure.

use super::style::elapsed;
use crate::sanitize::one_line;
use protocol::{ModelCall, ModelCallState, Usage};

/// Characters of a provider's error.
const ERROR_CHARS: usize = 300;

/// Formats a failed or retried call; `None` for a successful or abandoned one.
pub fn error_line(call: &ModelCall) -> Option<String> {
    let provider = match call.provider.as_str() {
        // No provider was called.
        "" => "the gateway".to_owned(),
        provider => one_line(provider, ERROR_CHARS / 4),
    };
    let words =
        call.error.as_deref().map(|error| one_line(error, ERROR_CHARS)).filter(|text| !text.is_empty());
    let error = match (call.status, words) {
        (Some(status), Some(words)) => format!("{provider} {status}: {words}"),
        (Some(status), None) => format!("{provider} {status}"),
        // The error of the gateway names the provider.
        (None, Some(words)) => words,
        (None, None) => format!("{provider} did not respond"),
    };
    match call.state {
        ModelCallState::Succeeded | ModelCallState::Abandoned => None,
        ModelCallState::Retrying => {
            let wait = call.retry_in_ms.map(|ms| format!(" in {}", elapsed(ms))).unwrap_or_default();
            let next = call.attempt.saturating_add(1);
            Some(format!("{error}, trying again{wait} (try {next})"))
        }
        ModelCallState::Failed => Some(error),
    }
}

/// Formats model use, as in `12,345 tokens in (8,000 from the cache), 2,100 out, 14 calls, $0.0421`.
pub fn usage_line(usage: &Usage) -> String {
    let input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
    let cached = match usage.cache_read_tokens {
        0 => String::new(),
        cached => format!(" ({} from the cache)", thousands(cached)),
    };
    let about = if usage.estimated { "about " } else { "" };
    let mut text =
        format!("{about}{} tokens in{cached}, {} out", thousands(input), thousands(usage.output_tokens));
    for (count, one, many) in [
        (usage.calls, "call", "calls"),
        (usage.retries, "retry", "retries"),
        (usage.failed_calls, "failed", "failed"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {} {}", thousands(count), if count == 1 { one } else { many }));
        }
    }
    if let Some(cost) = usage.cost_micro_usd {
        text.push_str(&format!(", ${}.{:04}", cost / 1_000_000, cost % 1_000_000 / 100));
    }
    text
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_one_line() {
        let table = [
            (Usage { input_tokens: 1200, output_tokens: 30, ..Usage::default() }, "1,200 tokens in, 30 out"),
            (
                Usage {
                    input_tokens: 345,
                    cache_read_tokens: 12_000,
                    output_tokens: 2_100_000,
                    calls: 14,
                    retries: 1,
                    failed_calls: 2,
                    cost_micro_usd: Some(1_042_150),
                    ..Usage::default()
                },
                "12,345 tokens in (12,000 from the cache), 2,100,000 out, 14 calls, 1 retry, 2 failed, $1.0421",
            ),
            (
                Usage { input_tokens: 1, calls: 1, estimated: true, ..Usage::default() },
                "about 1 tokens in, 0 out, 1 call",
            ),
        ];
        for (used, expected) in table {
            assert_eq!(usage_line(&used), expected);
        }
    }

    #[test]
    fn only_trouble_is_worth_a_line() {
        let call = ModelCall { provider: "anthropic".to_owned(), attempt: 1, ..ModelCall::default() };
        let failed = ModelCall {
            state: ModelCallState::Failed,
            status: Some(401),
            error: Some("invalid\nx-api-key".to_owned()),
            ..call.clone()
        };
        let retrying = ModelCall {
            state: ModelCallState::Retrying,
            status: Some(529),
            retry_in_ms: Some(2000),
            ..call.clone()
        };
        let silent = ModelCall { status: None, retry_in_ms: None, ..retrying.clone() };
        let unreachable = "the provider anthropic is unreachable: could not connect to 127.0.0.1: refused";
        let away = ModelCall { error: Some(unreachable.to_owned()), ..silent.clone() };
        let table = [
            (call, None),
            (failed, Some("anthropic 401: invalid x-api-key")),
            (retrying, Some("anthropic 529, trying again in 2.0s (try 2)")),
            (silent, Some("anthropic did not respond, trying again (try 2)")),
            (
                away,
                Some(
                    "the provider anthropic is unreachable: could not connect to 127.0.0.1: refused, trying again (try 2)",
                ),
            ),
        ];
        for (call, expected) in table {
            assert_eq!(error_line(&call).as_deref(), expected);
        }
    }
}
