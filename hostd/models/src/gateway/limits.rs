//! Every limit of the gateway, with its unit, and its timeouts.

use hostd_core::{Backoff, Rate, limits::MODEL_IDLE_DEFAULT_S};
use std::time::Duration;

/// Concurrent calls of one sandbox.
pub const CALLS_MAX: usize = 64;
/// Body of one request; bodies in memory of one sandbox; bodies in memory of all.
pub const BODY_MAX_BYTES: usize = 64 << 20;
pub const BODIES_MAX_BYTES: usize = 128 << 20;
pub const BODIES_ALL_MAX_BYTES: usize = 1 << 30;
/// Time for a request body to arrive.
pub const BODY_MAX_MS: u64 = 30_000;
/// Providers with metrics of their own; the others are counted as one.
pub const PROVIDERS_LABELED_MAX: usize = 32;
/// Length of a key that an agent presents.
pub const KEY_MAX_BYTES: usize = 512;
/// Name of a model in a request.
pub const MODEL_MAX_BYTES: usize = 256;
/// Head of a response.
pub const HEAD_MAX_BYTES: usize = 64 << 10;
/// Body of an error response, which is read whole, and the time for it to arrive.
pub const ERROR_MAX_BYTES: usize = 256 << 10;
pub const ERROR_MAX_MS: u64 = 10_000;
/// A provider's list of models: its body, the time for it to arrive, and its entries.
pub const LIST_MAX_BYTES: usize = 1 << 20;
pub const LIST_MAX_MS: u64 = 10_000;
pub const MODELS_MAX: usize = 5_000;
/// Message of a provider in events and errors.
pub const MESSAGE_MAX_CHARS: usize = 600;
/// An event of a stream, and a response in one JSON document, that are parsed. Longer ones are relayed
/// unparsed.
pub const EVENT_MAX_BYTES: usize = 8 << 20;
pub const JSON_BODY_MAX_BYTES: usize = 8 << 20;
/// A member of a response that is parsed as a value.
pub const JSON_MEMBER_MAX_BYTES: usize = 64 << 10;
/// Usage of one call that is believed, for each kind of token.
pub const USAGE_MAX_TOKENS: u64 = 1_000_000_000;
/// Longer request bodies are parsed on a blocking thread, so that other calls are served meanwhile.
pub const PARSE_INLINE_MAX_BYTES: usize = 1 << 20;
/// Such threads at a time: parsing a body may take as much memory again.
pub const PARSE_THREADS_MAX: usize = 4;
/// Rate of responses that hostd itself gives one sandbox: refusals, lists of models. Responses of providers
/// do not count.
pub const LOCAL_RESPONSES: Rate = Rate { burst: 200, per_second: 100 };
/// Output tokens between two checks of the budget.
pub const BUDGET_CHECK_EVERY_TOKENS: u64 = 64;
/// Delay of a refusal: refusals cost hostd something and the sandbox nothing.
pub const REFUSAL_DELAY_MS: u64 = 20;
/// Idle connections to one provider, to all, and how long they are kept.
pub const POOLED_MAX: usize = 32;
pub const POOLED_ALL_MAX: usize = 256;
pub const POOLED_IDLE_MAX_MS: u64 = 45_000;
/// Sandboxes whose usage is kept before those without a call are forgotten.
pub const SANDBOXES_MAX: usize = 4_096;

/// How long the gateway waits for a provider.
#[derive(Debug, Clone, Copy)]
pub struct ProviderTimeouts {
    /// Time to the first byte of a response.
    pub first_byte: Duration,
    /// Time without a byte in the middle of a response.
    pub idle: Duration,
    pub backoff: Backoff,
}

impl Default for ProviderTimeouts {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(600),
            idle: Duration::from_secs(MODEL_IDLE_DEFAULT_S),
            backoff: Backoff::default(),
        }
    }
}
