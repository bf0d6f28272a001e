//! Deadlines and size limits of the engine client.

use std::time::Duration;

/// Requests that need no work in the engine.
pub const RESPONSE_DEADLINE: Duration = Duration::from_secs(10);
/// Listing all containers, and what the engine has to look up about itself.
pub const LIST_DEADLINE: Duration = Duration::from_secs(30);
/// Create, start, pause and remove: seconds on a busy machine.
pub const WORK_DEADLINE: Duration = Duration::from_secs(25);
/// Health check of the connection.
pub const PING_DEADLINE: Duration = Duration::from_secs(5);
/// Time for a stop beyond the grace period that it was given.
pub const STOP_MARGIN: Duration = Duration::from_secs(20);
/// Longest silence within a pull.
pub const PULL_IDLE_TIMEOUT: Duration = Duration::from_secs(300);
pub const PULL_DEADLINE: Duration = Duration::from_secs(3600);
pub const IMPORT_DEADLINE: Duration = Duration::from_secs(1800);

pub const RESPONSE_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Thousands of containers with their labels, which images can make long.
pub const LIST_MAX_BYTES: usize = 128 * 1024 * 1024;
/// One event, or one line of a pull.
pub const LINE_MAX_BYTES: usize = 1024 * 1024;
/// Output of a container; the log limit set at create is lower.
pub const LOG_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Longest silence while a log is read.
pub const LOG_IDLE_TIMEOUT: Duration = Duration::from_secs(5);
pub const LOG_LINE_MAX_BYTES: usize = 4 * 1024;
/// Messages of the engine that are shown to users.
pub const MESSAGE_MAX_CHARS: usize = 2_000;
/// Layers of one image that pull progress counts.
pub const LAYERS_MAX: usize = 1_024;
/// How often a pull reports progress.
pub const REPORT_EVERY: Duration = Duration::from_secs(1);
