//! Every limit of runtimed, with its unit in its name. All external input has one.

// ---- requests ----

/// Body of an ordinary request. Standard input is streamed and has no limit of its own.
pub const BODY_MAX_BYTES: usize = 2 << 20;
/// Body of a request on the public socket.
pub const PUBLIC_BODY_MAX_BYTES: usize = 4 << 10;
/// Connections to the control socket at once.
pub const CONTROL_CONNECTIONS_MAX: usize = 512;
/// Connections to the public socket at once.
pub const PUBLIC_CONNECTIONS_MAX: usize = 16;
/// Requests per second on the public socket, on average and in one burst.
pub const PUBLIC_REQUESTS_PER_SECOND: u32 = 50;
pub const PUBLIC_REQUESTS_BURST: u32 = 100;
/// How long a client may take to send its request head, and then a body that is not streamed.
pub const HEAD_TIMEOUT_MS: u64 = 10_000;
pub const BODY_TIMEOUT_MS: u64 = 10_000;
/// How long a client that is answered while it still sends may take to read the answer and close.
pub const LINGER_MAX_MS: u64 = 10_000;
/// Followers of output, logs and events at once.
pub const FOLLOWERS_MAX: usize = 256;

// ---- jobs ----

pub use protocol::limits::{
    ARG_MAX_BYTES, ARGV_ENV_MAX_BYTES, ARGV_MAX_COUNT, ENV_MAX_COUNT, GRACE_MAX_MS, HEALTH_INTERVAL_MAX_MS,
    HEALTH_INTERVAL_MIN_MS, HEALTH_PATTERN_MAX_BYTES, HEALTH_TIMEOUT_MAX_MS, PATH_MAX_BYTES,
    PROMPT_MAX_BYTES, SERVICES_MAX, STDIN_INLINE_MAX_BYTES, TAIL_MAX_LINES, TIMEOUT_MAX_MS, WATCH_PATHS_MAX,
};
/// Longest wait for the end of an exec in one request.
pub const WAIT_MAX_MS: u64 = 30 * 60 * 1000;
/// How long a job may take from its shim to the first instruction of its program.
pub const BEGIN_MAX_MS: u64 = 30_000;
pub const GRACE_DEFAULT_MS: u64 = 5_000;
/// How long output may stay open after the leader ended before the job is called leaky.
pub const DRAIN_MS: u64 = 250;
/// How long SIGKILL may take to empty a tree before the rest is reported.
pub const KILL_MAX_MS: u64 = 10_000;
/// How long an agent may take to exit after its conversation is over.
pub const LEAVE_MS: u64 = 3_000;
/// A shim that notices the idle timeout this late was suspended with the sandbox, and not merely slow.
pub const PAUSED_MS: u64 = 2_000;
/// Execs that run at once, and finished ones that are remembered.
pub const EXECS_LIVE_MAX: usize = 512;
pub const EXECS_KEPT_MAX: usize = 512;
pub const EXECS_KEPT_MAX_MS: u64 = 7 * 24 * 3600 * 1000;

/// Programs looked up at once, and the length of a name.
pub const PROGRAMS_MAX: usize = 64;
pub const PROGRAM_NAME_MAX_BYTES: usize = 4 << 10;

// ---- files ----

/// Verbs on files at once, and watches: a process each.
pub const FILES_VERBS_MAX: usize = 32;
pub const FILES_WATCHES_MAX: usize = 16;

// ---- tasks ----

/// Queued tasks, and finished ones that are remembered.
pub const TASKS_QUEUED_MAX: usize = 64;
pub const TASKS_KEPT_MAX: usize = 512;
/// Default timeout of a task, and of the wait for services at its end.
pub const TASK_TIMEOUT_DEFAULT_MS: u64 = 60 * 60 * 1000;
pub const TASK_HEALTH_DEFAULT_MS: u64 = 60_000;
pub const TASK_HEALTH_MAX_MS: u64 = 10 * 60_000;
/// Default timeout of a build.
pub const BUILD_TIMEOUT_DEFAULT_MS: u64 = 10 * 60_000;
/// One event of an agent's output; longer lines are split.
pub const TASK_LINE_MAX_BYTES: usize = 64 << 10;
/// One file of a task's events; trimming removes whole files.
pub const TASK_SEGMENT_MAX_BYTES: u64 = 4 << 20;
/// Disk space reserved for the last event of a task; a result is truncated to fit.
pub const TASK_DONE_RESERVED_BYTES: u64 = 192 << 10;
/// Interval between tries to write that event, and how long a killed shim may take to die first.
pub const TASK_END_RETRY_MS: u64 = 1_000;
pub const TASK_WRITER_DIES_MS: u64 = 2_000;
/// One line of an agent that prints JSON; of a longer one only the length is reported.
pub const JSON_LINE_MAX_BYTES: usize = 8 << 20;
/// An agent's raw log, and one file of it.
pub const RAW_LOG_MAX_BYTES: u64 = 8 << 20;
pub const RAW_SEGMENT_MAX_BYTES: u64 = 1 << 20;
/// The end of a failed agent's output that is no message.
pub const AGENT_STDERR_MAX_BYTES: usize = 2 << 10;
/// The end of an agent's last message, and of a failed build's output.
pub const FINAL_MESSAGE_MAX_BYTES: usize = 16 << 10;
pub const BUILD_TAIL_MAX_BYTES: usize = 4 << 10;
/// One line of an ACP agent; longer ones are dropped.
pub const ACP_LINE_MAX_BYTES: usize = 8 << 20;
/// Bytes that an ACP agent may leave unread.
pub const ACP_UNREAD_MAX_BYTES: usize = 8 << 20;
/// How long a stop request over ACP may take before SIGTERM.
pub const ACP_STOP_REQUEST_MS: u64 = 2_000;
/// Files that an agent needs, and the size of one.
pub const AGENT_FILES_MAX: usize = 64;
pub const AGENT_FILE_MAX_BYTES: usize = 256 << 10;
/// Options of an agent's session, permission rules, and the length of a name or pattern.
pub const AGENT_OPTIONS_MAX: usize = 64;
pub const PERMISSION_RULES_MAX: usize = 256;
pub const AGENT_WORD_MAX_BYTES: usize = 1 << 10;
/// How long an agent that was started in advance may wait for its task.
pub const WARM_KEEP_MAX_MS: u64 = 60 * 60_000;
/// Output and facts from before its task that are kept for it.
pub const WARM_TOLD_MAX_BYTES: usize = 64 << 10;
pub const WARM_FACTS_MAX: usize = 256;
/// Changed files listed in a result, and their total size.
pub const CHANGES_SHOWN_MAX: usize = 500;
pub const CHANGES_SHOWN_MAX_BYTES: usize = 32 << 10;
/// Output of a helper process that its shim reads.
pub const ANSWER_MAX_BYTES: usize = 256 << 10;

// ---- checkpoints ----

/// Taking a checkpoint, or counting the changes since.
pub const CHECKPOINT_MAX_MS: u64 = 60_000;
/// A larger file is skipped.
pub const CHECKPOINT_FILE_MAX_BYTES: u64 = 64 << 20;
/// Files in all; a workspace with more gets no checkpoint.
pub const CHECKPOINT_FILES_MAX: usize = 200_000;
/// Checkpoints that are kept, newest first.
pub const CHECKPOINTS_KEPT_MAX: usize = 100;
/// Repositories within the app that are searched.
pub const CHECKPOINT_NESTED_MAX: usize = 64;

/// Directories within each other; deeper files are skipped.
pub const CHECKPOINT_DEPTH_MAX: usize = 512;
/// The list of what a checkpoint skips; a longer one is truncated.
pub const SKIPPED_LIST_MAX_BYTES: usize = 2 << 20;
/// Directories that are searched for unreadable ones.
pub const UNREADABLE_WALK_MAX: usize = 200_000;

// ---- revert ----

/// Restoring the files of a checkpoint, and when PID 1 kills a process that outlives that.
pub const REVERT_MAX_MS: u64 = 30 * 60_000;
pub const REVERT_KILL_MS: u64 = REVERT_MAX_MS + 15_000;
/// Paths in each list of the response, the size of each list, and a path in it.
pub const REVERT_LISTED_MAX: usize = 1_000;
pub const REVERT_LIST_MAX_BYTES: usize = 512 << 10;
pub const REVERT_PATH_MAX_BYTES: usize = 4 << 10;
/// Files and directories that are looked at below the app directory; ignored ones are not.
pub const REVERT_WALK_MAX_ENTRIES: usize = 1_000_000;
/// States before a revert that are kept, newest first.
pub const REVERTS_KEPT_MAX: usize = 20;

// ---- changes of a task ----

/// Changed files that are listed, and the size of the list.
pub const CHANGES_LISTED_MAX: usize = 2_000;
pub const CHANGES_LIST_MAX_BYTES: usize = 1 << 20;
/// The diff of one file, and all diffs of a task together; a larger one is left out.
pub const FILE_DIFF_MAX_BYTES: usize = 256 << 10;
pub const CHANGES_DIFF_MAX_BYTES: usize = 4 << 20;
/// A file whose diff is recorded; git is not asked for the diff of a larger one.
pub const CHANGED_FILE_MAX_BYTES: u64 = 2 << 20;
/// The same for the diff of one file that is asked for.
pub const ONE_DIFF_MAX_BYTES: usize = 4 << 20;
pub const ONE_FILE_MAX_BYTES: u64 = 16 << 20;
/// The document of a task's changes.
pub const CHANGES_DOCUMENT_MAX_BYTES: u64 = 8 << 20;
/// How long diffs may take after the changes are counted, and the diff of one file.
pub const DIFFS_MAX_S: u32 = 20;
pub const ONE_DIFF_MAX_MS: u64 = 20_000;
/// Names of large files that git is told to leave out.
pub const LEFT_OUT_NAMES_MAX_BYTES: usize = 64 << 10;

// ---- output and logs ----

/// One file of an output log; trimming removes whole files.
pub const SEGMENT_MAX_BYTES: u64 = 4 << 20;
/// The log of one service.
pub const SERVICE_LOG_MAX_BYTES: u64 = 16 << 20;
/// Files of a service's log: every run that prints begins one, and a service may fail for months.
pub const SERVICE_LOG_MAX_FILES: usize = 256;
/// Logs of removed services, kept in case they return.
pub const SERVICE_LOGS_RETIRED_MAX: usize = 64;
/// Default quota of all logs of a sandbox together.
pub const LOG_QUOTA_DEFAULT_BYTES: u64 = 512 << 20;
/// Event log: one file, and all of them.
pub const EVENT_SEGMENT_MAX_BYTES: u64 = 1 << 20;
pub const EVENTS_MAX_BYTES: u64 = 16 << 20;
/// Output within an exec response, per stream.
pub const INLINE_OUTPUT_MAX_BYTES: usize = 1 << 20;
/// One chunk read from a log for a follower.
pub const CHUNK_MAX_BYTES: usize = 64 << 10;
/// Bytes sent to a viewer that attaches to a terminal.
pub const REPLAY_DEFAULT_BYTES: u64 = 64 << 10;
/// A viewer of a terminal that is farther behind skips ahead; bytes between two checks of the lag.
pub const VIEWER_LAG_MAX_BYTES: u64 = 8 << 20;
pub const VIEWER_LOOK_BYTES: u64 = 1 << 20;
/// Bytes read to find the last lines of a log.
pub const TAIL_MAX_BYTES: u64 = 1 << 20;
/// Log lines in the state of a service, each shortened.
pub const LAST_LINES: usize = 20;
pub const LAST_LINE_MAX_BYTES: usize = 500;

// ---- services ----

pub const MANIFEST_MAX_BYTES: u64 = 256 << 10;
pub const BACKOFF_MIN_MS: u64 = 1_000;
pub const BACKOFF_MAX_MS: u64 = 30_000;
/// A run this long counts as a success: the next failure starts with the shortest backoff.
pub const STEADY_RUN_MS: u64 = 10_000;
/// Interval between checks of a service that is not ready yet.
pub const PROBE_STARTING_MS: u64 = 200;
/// For how long that interval applies, and how long a start keeps the sandbox awake.
pub const PROBE_EAGER_FOR_MS: u64 = 60_000;
pub const STARTING_IS_BUSY_FOR_MS: u64 = 15 * 60_000;
/// Head of an HTTP response that a health check reads.
pub const PROBE_HEAD_MAX_BYTES: usize = 16 << 10;
/// Watched directories, their depth, and how long changes are collected.
pub const WATCH_DIRECTORIES_MAX: usize = 1024;
pub const WATCH_DEPTH_MAX: usize = 8;
pub const WATCH_QUIET_MS: u64 = 150;

// ---- descriptors ----

/// Descriptors that PID 1 needs at its other limits: one per connection, two files per follower, a socket and
/// a stdin per exec, and some for services, logs and /proc.
pub const DESCRIPTORS_WANTED: u64 =
    (CONTROL_CONNECTIONS_MAX + PUBLIC_CONNECTIONS_MAX + 2 * FOLLOWERS_MAX + 2 * EXECS_LIVE_MAX + 512) as u64;

// ---- /proc and disk ----

/// Entries of /proc and descriptors of processes read for one response.
pub const PROC_ENTRIES_MAX: usize = 8192;
pub const PROC_FDS_MAX: usize = 65_536;
pub const PROC_FILE_MAX_BYTES: usize = 4 << 20;
pub const COMMAND_SHOWN_MAX_BYTES: usize = 200;
/// Files counted for the size of the workspace, per slice and in all; how long a count stays valid.
pub const DISK_WALK_SLICE: usize = 512;
pub const DISK_WALK_MAX_FILES: u64 = 200_000;
pub const DISK_WALK_KEEP_MS: u64 = 30_000;
/// CPU use below this percentage of one core is idle.
pub const CPU_IDLE_PERCENT: u32 = 5;

// ---- holds ----

pub const HOLDS_MAX: usize = 32;
/// Beyond this many holds, sandboxed code gets no more: the rest is for the control socket.
pub const PUBLIC_HOLDS_MAX: usize = 16;
pub const HOLD_TTL_DEFAULT_S: u64 = 60;
pub const HOLD_TTL_MAX_S: u64 = 24 * 3600;
pub const HOLD_REASON_MAX_BYTES: usize = 200;

// ---- shutdown ----

/// Default duration of a whole shutdown.
pub const SHUTDOWN_DEFAULT_MS: u64 = 8_000;
/// Part of it that is kept for SIGKILL and reaping.
pub const SHUTDOWN_KILL_MS: u64 = 2_000;
