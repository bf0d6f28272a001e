//! What is not waited for, and not read.

use std::time::Duration;

/// For questions that need no work.
pub const RESPONSE_DEADLINE: Duration = Duration::from_secs(10);
/// A list of all, and what the engine has to look up about itself.
pub const LIST_DEADLINE: Duration = Duration::from_secs(30);
/// Create, start, pause and remove: seconds on a busy machine.
pub const WORK_DEADLINE: Duration = Duration::from_secs(25);
/// A sign of life.
pub const PING_DEADLINE: Duration = Duration::from_secs(5);
/// What a stop may take beyond the grace that it was given.
pub const STOP_MARGIN: Duration = Duration::from_secs(20);
/// Between two signs of life of a pull.
pub const PULL_IDLE_TIMEOUT: Duration = Duration::from_secs(300);
pub const PULL_DEADLINE: Duration = Duration::from_secs(3600);
pub const IMPORT_DEADLINE: Duration = Duration::from_secs(1800);

pub const RESPONSE_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Thousands of containers, with their labels, which images may make long.
pub const LIST_MAX_BYTES: usize = 128 * 1024 * 1024;
/// One event, or one line of a pull.
pub const LINE_MAX_BYTES: usize = 1024 * 1024;
/// What a container printed: its log is limited at create to less.
pub const LOG_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Between two pieces of it.
pub const LOG_IDLE_TIMEOUT: Duration = Duration::from_secs(5);
pub const LOG_LINE_MAX_BYTES: usize = 4 * 1024;
/// What the engine says for people.
pub const MESSAGE_MAX_CHARS: usize = 2_000;
/// Layers of one image that a pull counts.
pub const LAYERS_MAX: usize = 1_024;
/// How often a pull tells how far it is.
pub const REPORT_EVERY: Duration = Duration::from_secs(1);
