//! Every limit of this driver, with its unit in its name.

/// From the start of the runtime until PID 1 runs.
pub const LAUNCH_MAX_MS: u64 = 20_000;
/// How long a launch waits for another one of the same sandbox, begun by an earlier hostd.
pub const LAUNCH_WAIT_MAX_MS: u64 = 25_000;
/// From the launch of a probe until its PID 1 answers.
pub const PROBE_ANSWER_MAX_MS: u64 = 5_000;
/// What is kept of what a runtime prints.
pub const OUTPUT_MAX_BYTES: usize = 16 << 10;
pub const OUTPUT_MAX_LINES: usize = 40;
/// What is read of what PID 1 printed last.
pub const STDIO_TAIL_MAX_BYTES: u64 = 16 << 10;
/// What is read of runtimed's newest event file.
pub const EVENTS_TAIL_MAX_BYTES: u64 = 256 << 10;
/// Files looked at in runtimed's event directory.
pub const EVENTS_FILES_MAX: usize = 4096;
pub const BADGE_MAX_BYTES: u64 = 1 << 20;
/// A file of /proc or of a control group.
pub const KERNEL_FILE_MAX_BYTES: u64 = 1 << 20;

/// How often PID 1 is asked to end, at first and later: a signal before it is ready to hear it is lost.
pub const TERM_FIRST_MS: u64 = 10;
pub const TERM_EVERY_MS: u64 = 200;
/// From SIGKILL until PID 1 is gone. Longer only when the kernel is stuck.
pub const KILL_MAX_MS: u64 = 10_000;
pub const FREEZE_MAX_MS: u64 = 5_000;
pub const CGROUP_REMOVE_MAX_MS: u64 = 5_000;
/// Between two looks at something the kernel is about to finish.
pub const POLL_MS: u64 = 2;
/// How often processes of a control group are killed, until none is left.
pub const KILL_ROUNDS_MAX: usize = 64;

/// Until a connection into a sandbox stands.
pub const DIAL_MAX_MS: u64 = 5_000;
/// Threads that enter network namespaces, and requests that wait for one.
pub const DIALERS: usize = 2;
pub const DIAL_QUEUE_MAX: usize = 1024;
/// Connections that wait for `accept` of a listener inside.
pub const LISTEN_BACKLOG: i32 = 256;

/// Terminals that may be open in one sandbox.
pub const TERMINALS_MAX: u32 = 256;
/// Ids of one sandbox, and where they begin on the host: above everything that people and
/// distributions hand out.
pub const UID_RANGE: u32 = 1 << 16;
pub const UID_FIRST: u32 = 0x8000_0000;
pub const UID_LAST: u32 = 0xfffe_0000;
/// Who everything in a sandbox runs as, seen from inside.
pub const SANDBOX_UID: u32 = 1000;

pub const MEMORY_MIN_MB: u64 = 16;
pub const PIDS_MIN: u64 = 16;
pub const CPUS_MIN: f64 = 0.01;
pub const CPU_PERIOD_US: u64 = 100_000;
/// Open files, unless our own limit is lower.
pub const NOFILE_MAX: u64 = 1 << 20;
/// Below this many open files ordinary tools fail.
pub const NOFILE_LOW: u64 = 4096;

/// Sizes of the tmpfs mounts, as parts of the memory limit: what is in them counts against it.
pub const TMP_PERCENT: u64 = 50;
pub const VAR_TMP_PERCENT: u64 = 25;
pub const SHM_PERCENT: u64 = 50;
/// The device nodes, and the control group mounts.
pub const DEV_TMPFS_BYTES: u64 = 64 << 10;
pub const SYS_TMPFS_BYTES: u64 = 64 << 10;

/// Unpacked size and number of files of an image, and how deep they lie.
pub const IMAGE_MAX_BYTES: u64 = 64 << 30;
pub const IMAGE_MAX_ENTRIES: u64 = 4_000_000;
pub const IMAGE_DEPTH_MAX: usize = 256;
/// What an archive may say about one entry beside its data: long names, extended headers.
pub const IMAGE_HEADERS_MAX_BYTES: u64 = 1 << 20;
/// The window of a zstd frame, which is kept in memory: the limit of the `zstd` command itself.
pub const ZSTD_WINDOW_MAX_BYTES: u64 = 128 << 20;
pub const IMAGE_NAME_MAX_BYTES: usize = 64;

/// Entries counted in a workspace.
pub const MEASURE_MAX_ENTRIES: u64 = 4_000_000;
/// Directories open at a time while a tree is walked; deeper ones are moved up first.
pub const TREE_DEPTH_MAX: usize = 64;

/// How long the parent of a PID 1 that ended may take to reap it, before nobody asks any more how it ended.
pub const REAPED_MAX_MS: u64 = 50;
