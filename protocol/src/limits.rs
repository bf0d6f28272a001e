//! Limits that both sides keep, so that hostd refuses at once what runtimed would.

/// Arguments and environment of one job together; the kernel refuses more than about this.
pub const ARGV_ENV_MAX_BYTES: usize = 1 << 20;
/// One argument or one `NAME=value`; the kernel's own limit for a string is 128 KiB.
pub const ARG_MAX_BYTES: usize = (128 << 10) - 1;
pub const ARGV_MAX_COUNT: usize = 4096;
pub const ENV_MAX_COUNT: usize = 1024;
pub const PATH_MAX_BYTES: usize = 4095;
/// A prompt; it must fit into one variable of the environment.
pub const PROMPT_MAX_BYTES: usize = 100 << 10;
/// Input given with the request itself.
pub const STDIN_INLINE_MAX_BYTES: usize = 1 << 20;
/// How long a tree may take between SIGTERM and SIGKILL.
pub const GRACE_MAX_MS: u64 = 60_000;
/// Columns and rows of a terminal.
pub const TTY_SIDE_MAX: u16 = 4096;
/// Lines of a log in one answer.
pub const TAIL_MAX_LINES: usize = 10_000;
/// Between two checks of a service, and for one of them.
pub const HEALTH_INTERVAL_MIN_MS: u64 = 500;
pub const HEALTH_INTERVAL_MAX_MS: u64 = 3_600_000;
pub const HEALTH_TIMEOUT_MIN_MS: u64 = 1;
pub const HEALTH_TIMEOUT_MAX_MS: u64 = 60_000;
pub const HEALTH_PATTERN_MAX_BYTES: usize = 512;
/// Paths in `watch`.
pub const WATCH_PATHS_MAX: usize = 32;
