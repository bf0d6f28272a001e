//! Limits of webhooks, with their units.

use hostd_core::webhook::Concurrency;

/// Deliveries that are sent at the same time: by all webhooks, by those of one tenant, and by one.
pub const CONCURRENCY: Concurrency = Concurrency { all_max: 256, of_tenant_max: 16, of_webhook_max: 4 };
/// One attempt: from the lookup of the name to the end of the response.
pub const ATTEMPT_MAX_MS: u64 = 15_000;
/// The head of a response, and what is read and kept of its body.
pub const RESPONSE_HEAD_MAX_BYTES: usize = 16 << 10;
pub const RESPONSE_READ_MAX_BYTES: usize = 1 << 10;
pub const RESPONSE_READ_MAX_MS: u64 = 2_000;
pub const RESPONSE_KEPT_MAX_CHARS: usize = 200;
/// A message about a failure.
pub const ERROR_MAX_CHARS: usize = 400;
/// How long a delivery is tried.
pub const AGE_MAX_MS: u64 = 24 * 3600 * 1000;
/// How long the secret before the last one signs too.
pub const SECRET_OVERLAP_MS: u64 = 24 * 3600 * 1000;
/// The interval between two reads of the log, and how many parts of it are read for one webhook in a row.
pub const READ_EVERY_MS: u64 = 100;
pub const PARTS_IN_A_ROW_MAX: usize = 8;
/// A cursor that moved over events of other kinds is written this late.
pub const CURSOR_WRITTEN_AFTER_MS: u64 = 10_000;
/// The wait after the store failed.
pub const STORE_RETRY_MS: u64 = 1_000;
/// The wait after a defect of hostd ended an attempt.
pub const AFTER_PANIC_MS: u64 = 60_000;
/// Ended deliveries of a webhook are pruned after this many ends, and all this often.
pub const PRUNE_AFTER_ENDS: u64 = 50;
pub const PRUNE_EVERY_MS: u64 = 3600 * 1000;
/// How long attempts in flight may take at shutdown. Those that are cut off are repeated.
pub const DRAIN_MAX_MS: u64 = 2_000;
/// Tests of webhooks at the same time.
pub const TESTS_MAX: usize = 8;
