//! Every limit of runtimed, with its unit in its name. Nothing that comes from outside is without one.

// ---- requests ----

/// Body of an ordinary request. Standard input is streamed and has no limit of its own.
pub const BODY_MAX_BYTES: usize = 2 << 20;
/// Body of a request on the public socket.
pub const PUBLIC_BODY_MAX_BYTES: usize = 4 << 10;
/// Connections to the control socket at once.
pub const CONTROL_CONNECTIONS_MAX: usize = 512;
/// Connections to the public socket at once.
pub const PUBLIC_CONNECTIONS_MAX: usize = 16;
/// Requests a second on the public socket, on average and in one burst.
pub const PUBLIC_REQUESTS_PER_SECOND: u32 = 50;
pub const PUBLIC_REQUESTS_BURST: u32 = 100;
/// How long a client may take to send its request head, and then a body that is not streamed.
pub const HEAD_TIMEOUT_MS: u64 = 10_000;
pub const BODY_TIMEOUT_MS: u64 = 10_000;
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
/// How long a job that said all it has to say may take to go by itself.
pub const LEAVE_MS: u64 = 3_000;
/// How late the end of a silence is noticed by a shim that was paused, and was not merely slow.
pub const PAUSED_MS: u64 = 2_000;
/// Execs that run at once, and finished ones that are remembered.
pub const EXECS_LIVE_MAX: usize = 512;
pub const EXECS_KEPT_MAX: usize = 512;
pub const EXECS_KEPT_MAX_MS: u64 = 7 * 24 * 3600 * 1000;

/// Programs that are asked for at once, and the name of one.
pub const PROGRAMS_MAX: usize = 64;
pub const PROGRAM_NAME_MAX_BYTES: usize = 4 << 10;

// ---- tasks ----

/// Tasks that wait for their turn, and finished ones that are remembered.
pub const TASKS_QUEUED_MAX: usize = 64;
pub const TASKS_KEPT_MAX: usize = 512;
/// Unless a task says otherwise: all of it, and the wait for services at its end.
pub const TASK_TIMEOUT_DEFAULT_MS: u64 = 60 * 60 * 1000;
pub const TASK_HEALTH_DEFAULT_MS: u64 = 60_000;
pub const TASK_HEALTH_MAX_MS: u64 = 10 * 60_000;
/// A build, unless it says otherwise.
pub const BUILD_TIMEOUT_DEFAULT_MS: u64 = 10 * 60_000;
/// One event of what an agent prints; longer lines come in pieces.
pub const TASK_LINE_MAX_BYTES: usize = 64 << 10;
/// One file of a task's events; trimming takes away whole files.
pub const TASK_SEGMENT_MAX_BYTES: u64 = 4 << 20;
/// What is set aside on disk for the last event of a task; a result is made to fit.
pub const TASK_DONE_RESERVED_BYTES: u64 = 192 << 10;
/// How often it is tried to write that event, and how long a killed shim may take to die before.
pub const TASK_END_RETRY_MS: u64 = 1_000;
pub const TASK_WRITER_DIES_MS: u64 = 2_000;
/// One line of an agent that prints JSON; of a longer one only the length is told.
pub const JSON_LINE_MAX_BYTES: usize = 8 << 20;
/// What is kept of everything that an agent printed, and one file of it.
pub const RAW_LOG_MAX_BYTES: u64 = 8 << 20;
pub const RAW_SEGMENT_MAX_BYTES: u64 = 1 << 20;
/// The end of what an agent that failed printed beside its messages.
pub const AGENT_STDERR_MAX_BYTES: usize = 2 << 10;
/// What is kept of the end of what an agent said, and a failed build.
pub const FINAL_MESSAGE_MAX_BYTES: usize = 16 << 10;
pub const BUILD_TAIL_MAX_BYTES: usize = 4 << 10;
/// One line of an agent that speaks the Agent Client Protocol; longer ones are left out.
pub const ACP_LINE_MAX_BYTES: usize = 8 << 20;
/// What such an agent has not read yet of what it is sent.
pub const ACP_UNREAD_MAX_BYTES: usize = 8 << 20;
/// How long it has to obey when it is asked to stop, before it is told to.
pub const ACP_STOP_REQUEST_MS: u64 = 2_000;
/// Files that an agent wants, and one of them.
pub const AGENT_FILES_MAX: usize = 64;
pub const AGENT_FILE_MAX_BYTES: usize = 256 << 10;
/// Modes and options of an agent's session, and rules on what it may do.
pub const AGENT_OPTIONS_MAX: usize = 64;
pub const PERMISSION_RULES_MAX: usize = 256;
pub const AGENT_WORD_MAX_BYTES: usize = 1 << 10;
/// How long an agent that was started in advance may wait for its task.
pub const WARM_KEEP_MAX_MS: u64 = 60 * 60_000;
/// What it prints meanwhile, and tells, as far as its task is told of it.
pub const WARM_TOLD_MAX_BYTES: usize = 64 << 10;
pub const WARM_FACTS_MAX: usize = 256;
/// Changed files by name in a result, and all those names together.
pub const CHANGES_SHOWN_MAX: usize = 500;
pub const CHANGES_SHOWN_MAX_BYTES: usize = 32 << 10;
/// What a helper may print for its shim to read.
pub const ANSWER_MAX_BYTES: usize = 256 << 10;

// ---- checkpoints ----

/// Taking one, and counting what changed since.
pub const CHECKPOINT_MAX_MS: u64 = 60_000;
/// A file larger than this is left out.
pub const CHECKPOINT_FILE_MAX_BYTES: u64 = 64 << 20;
/// Files in all; a workspace with more gets no checkpoint.
pub const CHECKPOINT_FILES_MAX: usize = 200_000;
/// Checkpoints that are kept, newest first.
pub const CHECKPOINTS_KEPT_MAX: usize = 100;
/// Repositories within the app that are looked into.
pub const CHECKPOINT_NESTED_MAX: usize = 64;

// ---- output and logs ----

/// One file of an output log; trimming takes away whole files.
pub const SEGMENT_MAX_BYTES: u64 = 4 << 20;
/// What one service keeps of its log.
pub const SERVICE_LOG_MAX_BYTES: u64 = 16 << 20;
/// And in how many files: every run that prints begins one, and a service may fail for months.
pub const SERVICE_LOG_MAX_FILES: usize = 256;
/// Logs of services that are gone, in case they come back.
pub const SERVICE_LOGS_RETIRED_MAX: usize = 64;
/// All logs of a sandbox together, unless configured.
pub const LOG_QUOTA_DEFAULT_BYTES: u64 = 512 << 20;
/// Event log: one file, and all of them.
pub const EVENT_SEGMENT_MAX_BYTES: u64 = 1 << 20;
pub const EVENTS_MAX_BYTES: u64 = 16 << 20;
/// Output in the answer to an exec, for each stream.
pub const INLINE_OUTPUT_MAX_BYTES: usize = 1 << 20;
/// One chunk read from a log for a follower.
pub const CHUNK_MAX_BYTES: usize = 64 << 10;
/// Bytes shown to a viewer who attaches to a terminal.
pub const REPLAY_DEFAULT_BYTES: u64 = 64 << 10;
/// A viewer of a terminal who is farther behind is taken ahead; between two looks at how far it is.
pub const VIEWER_LAG_MAX_BYTES: u64 = 8 << 20;
pub const VIEWER_LOOK_BYTES: u64 = 1 << 20;
/// What is read to find the last lines of a log.
pub const TAIL_MAX_BYTES: u64 = 1 << 20;
/// Lines of a service's log shown in its state, each shortened.
pub const LAST_LINES: usize = 20;
pub const LAST_LINE_MAX_BYTES: usize = 500;

// ---- services ----

pub const MANIFEST_MAX_BYTES: u64 = 256 << 10;
pub const BACKOFF_MIN_MS: u64 = 1_000;
pub const BACKOFF_MAX_MS: u64 = 30_000;
/// A run this long counts as a success: the next failure starts at the shortest pause again.
pub const STEADY_RUN_MS: u64 = 10_000;
/// Between checks of a service that is not ready yet.
pub const PROBE_STARTING_MS: u64 = 200;
/// For how long it is checked that often, and how long its start is a reason not to sleep.
pub const PROBE_EAGER_FOR_MS: u64 = 60_000;
pub const STARTING_IS_BUSY_FOR_MS: u64 = 15 * 60_000;
/// Head of an HTTP answer that a health check reads.
pub const PROBE_HEAD_MAX_BYTES: usize = 16 << 10;
/// Directories watched in all, and how long changes are gathered.
pub const WATCH_DIRECTORIES_MAX: usize = 1024;
pub const WATCH_DEPTH_MAX: usize = 8;
pub const WATCH_QUIET_MS: u64 = 150;

// ---- descriptors ----

/// What PID 1 needs at its other limits: a connection each, two files each follower, a socket and an
/// input each exec, and some for services, logs and looks around.
pub const DESCRIPTORS_WANTED: u64 =
    (CONTROL_CONNECTIONS_MAX + PUBLIC_CONNECTIONS_MAX + 2 * FOLLOWERS_MAX + 2 * EXECS_LIVE_MAX + 512) as u64;

// ---- looks around ----

/// Entries of /proc and descriptors of processes read for one answer.
pub const PROC_ENTRIES_MAX: usize = 8192;
pub const PROC_FDS_MAX: usize = 65_536;
pub const PROC_FILE_MAX_BYTES: usize = 4 << 20;
pub const COMMAND_SHOWN_MAX_BYTES: usize = 200;
/// Files counted for the use of the workspace, in one go and in all; how long the count stays good.
pub const DISK_WALK_SLICE: usize = 512;
pub const DISK_WALK_MAX_FILES: u64 = 200_000;
pub const DISK_WALK_KEEP_MS: u64 = 30_000;
/// CPU use below this share of one core is idle.
pub const CPU_IDLE_PERCENT: u32 = 5;

// ---- holds ----

pub const HOLDS_MAX: usize = 32;
/// With so many the sandboxed code gets no more: the rest is for control.
pub const PUBLIC_HOLDS_MAX: usize = 16;
pub const HOLD_TTL_DEFAULT_S: u64 = 60;
pub const HOLD_TTL_MAX_S: u64 = 24 * 3600;
pub const HOLD_REASON_MAX_BYTES: usize = 200;

// ---- end ----

/// The whole shutdown, unless configured.
pub const SHUTDOWN_DEFAULT_MS: u64 = 8_000;
/// Of which this much is kept for SIGKILL and reaping.
pub const SHUTDOWN_KILL_MS: u64 = 2_000;
