//! Limits of model configuration and model calls, with their units.

pub const NAME_MAX_BYTES: usize = 128;
pub const URL_MAX_BYTES: usize = 2048;
/// Shorter keys could not be told from other text where they must be redacted.
pub const KEY_MIN_BYTES: usize = 8;
/// Some credentials are whole documents.
pub const KEY_MAX_BYTES: usize = 16 << 10;
pub const MODELS_OF_PROVIDER_MAX: usize = 500;
/// Dollars per million tokens.
pub const PRICE_MAX_USD: f64 = 1_000_000.0;
/// Dollars of a budget.
pub const COST_MAX_USD: f64 = 1_000_000_000.0;
/// Size and number of slots for calls in flight.
pub const SLOT_BYTES: usize = 1024;
pub const SLOTS_MAX: usize = 16 << 10;
/// Longest wait of a task's end for calls in flight to be recorded.
pub const SETTLE_MAX_MS: u64 = 1_000;
/// Longest wait of a call for its task to begin.
pub const TASK_BEGIN_WAIT_MAX_MS: u64 = 30_000;
/// Longest wait of a call for budget that calls in flight have reserved.
pub const BUDGET_WAIT_MAX_MS: u64 = 30_000;

/// Whether a text can be the key of a provider.
pub fn is_key(text: &str) -> bool {
    (KEY_MIN_BYTES..=KEY_MAX_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}
