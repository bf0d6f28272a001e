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
