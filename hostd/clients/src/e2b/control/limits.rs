//! Limits of E2B's control plane, with their units.

/// Body of a request.
pub const BODY_MAX_BYTES: usize = 1 << 20;
/// Lifetime of a sandbox that names none.
pub const TIMEOUT_DEFAULT_S: u64 = 300;
/// Time that a sandbox gets beside its timeout until it runs, so that an image may be pulled first.
pub const LAUNCH_MARGIN_S: u64 = 1_800;
/// Shortest timeout that a sandbox of the default image gets at once.
pub const TIMEOUT_QUICK_MIN_S: u64 = 60;
/// A create that took longer than this does not count towards the timeout.
pub const LAUNCH_QUICK_MS: u128 = 1_000;
/// Longest wait for a sandbox to come up, or to come to rest.
pub const WAIT_S: u64 = 600;
/// Entries of a page: default, and maximum.
pub const PAGE_MAX: usize = 100;
/// Sandboxes, or snapshots, that one list looks through.
pub const LISTED_MAX: usize = 10_000;
/// Entries of a page of Slipway's own API.
pub const OWN_PAGE: usize = 1_000;
/// Sandboxes that one fork makes, and how many of them at a time.
pub const FORKS_MAX: u64 = 100;
pub const FORKS_AT_ONCE: usize = 4;
/// Lines of a log in one response.
pub const LOG_LINES_MAX: usize = 1_000;
/// Snapshots that the message about an unknown template names.
pub const NAMED_SNAPSHOTS_MAX: usize = 5;
/// A template.
pub const TEMPLATE_MAX_BYTES: usize = 256;
/// Time over which the use of CPU is measured.
pub const CPU_SAMPLE_MS: u64 = 100;
/// When a sandbox without a timeout is said to end: after a year.
pub const ENDLESS_S: u64 = 365 * 24 * 3600;
