//! Limits that hostd and runtimed share, so that hostd refuses at once what runtimed would. [`crate::validate`] applies
//! most of them.

/// Arguments and environment of one job together; `execve` fails above about this.
pub const ARGV_ENV_MAX_BYTES: usize = 1 << 20;
/// An argument or a `NAME=value`; the kernel's own limit per string is 128 KiB.
pub const ARG_MAX_BYTES: usize = (128 << 10) - 1;
pub const ARGV_MAX_COUNT: usize = 4096;
pub const ENV_MAX_COUNT: usize = 1024;
pub const PATH_MAX_BYTES: usize = 4095;
/// A prompt; it must fit into one environment variable.
pub const PROMPT_MAX_BYTES: usize = 100 << 10;
/// Id of a session of an agent.
pub const SESSION_MAX_BYTES: usize = 256;
/// Standard input inside the request itself.
pub const STDIN_INLINE_MAX_BYTES: usize = 1 << 20;
/// Longest time that a job may be given: a week.
pub const TIMEOUT_MAX_MS: u64 = 7 * 24 * 3600 * 1000;
/// Services of one sandbox.
pub const SERVICES_MAX: usize = 64;
/// Longest grace period between SIGTERM and SIGKILL.
pub const GRACE_MAX_MS: u64 = 60_000;
/// Columns and rows of a terminal.
pub const TTY_SIDE_MAX: u16 = 4096;
/// Lines of a log in one response.
pub const TAIL_MAX_LINES: usize = 10_000;
/// Interval between two health checks of a service, and timeout of one.
pub const HEALTH_INTERVAL_MIN_MS: u64 = 500;
pub const HEALTH_INTERVAL_MAX_MS: u64 = 3_600_000;
pub const HEALTH_TIMEOUT_MIN_MS: u64 = 1;
pub const HEALTH_TIMEOUT_MAX_MS: u64 = 60_000;
pub const HEALTH_PATTERN_MAX_BYTES: usize = 512;
/// Paths in `watch` of a service.
pub const WATCH_PATHS_MAX: usize = 32;
