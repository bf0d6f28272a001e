//! Limits of what administrators write down about models, with their units.

pub const NAME_MAX_BYTES: usize = 128;
pub const URL_MAX_BYTES: usize = 2048;
/// A credential: a shorter one could not be told from other text where it must be hidden.
pub const KEY_MIN_BYTES: usize = 8;
/// Some are whole documents.
pub const KEY_MAX_BYTES: usize = 16 << 10;
pub const MODELS_OF_PROVIDER_MAX: usize = 500;
/// Dollars for a million tokens.
pub const PRICE_MAX_USD: f64 = 1_000_000.0;
/// Dollars of a budget.
pub const COST_MAX_USD: f64 = 1_000_000_000.0;
/// What is written down of a call under way, and of how many of them.
pub const SLOT_BYTES: usize = 1024;
pub const SLOTS_MAX: usize = 16 << 10;
/// How long the end of a task waits for calls that are under way to be written down.
pub const SETTLE_MAX_MS: u64 = 1_000;
/// How long a call waits until it is known that its task has begun.
pub const TASK_BEGIN_WAIT_MAX_MS: u64 = 30_000;
/// How long a call waits for others that may leave something of a budget.
pub const BUDGET_WAIT_MAX_MS: u64 = 30_000;
