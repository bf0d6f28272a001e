//! Limits of the local drivers, with the unit in the name.

/// From the start of the runtime until PID 1 runs.
pub const LAUNCH_MAX_MS: u64 = 20_000;
/// How long a launch waits for another launch of the same sandbox that an earlier hostd began.
pub const LAUNCH_WAIT_MAX_MS: u64 = 25_000;
/// From the launch of a probe until its PID 1 answers.
pub const PROBE_ANSWER_MAX_MS: u64 = 5_000;
/// Output of the runtime that is kept.
pub const OUTPUT_MAX_BYTES: usize = 16 << 10;
pub const OUTPUT_MAX_LINES: usize = 40;
/// Tail of PID 1's output that is read.
pub const STDIO_TAIL_MAX_BYTES: u64 = 16 << 10;
/// Tail of runtimed's newest event file that is read.
pub const EVENTS_TAIL_MAX_BYTES: u64 = 256 << 10;
/// Files considered in runtimed's event directory.
pub const EVENTS_FILES_MAX: usize = 4096;
pub const BADGE_MAX_BYTES: u64 = 1 << 20;
/// A file in /proc or in a control group.
pub const KERNEL_FILE_MAX_BYTES: u64 = 1 << 20;

/// Interval between SIGTERMs, first and longest: PID 1 loses a signal before its handlers are installed.
pub const TERM_FIRST_MS: u64 = 10;
pub const TERM_EVERY_MS: u64 = 200;
/// From SIGKILL until PID 1 is gone. Exceeded only when the kernel is stuck.
pub const KILL_MAX_MS: u64 = 10_000;
pub const FREEZE_MAX_MS: u64 = 5_000;
pub const CGROUP_REMOVE_MAX_MS: u64 = 5_000;
/// Poll interval for what the kernel is about to finish.
pub const POLL_MS: u64 = 2;
/// Rounds of killing the processes of a control group, until none is left.
pub const KILL_ROUNDS_MAX: usize = 64;

/// Deadline for a connection into a sandbox.
pub const DIAL_MAX_MS: u64 = 5_000;
/// Threads that enter network namespaces, and requests queued for them.
pub const DIALERS: usize = 2;
pub const DIAL_QUEUE_MAX: usize = 1024;
/// Pending connections of a listener inside.
pub const LISTEN_BACKLOG: i32 = 256;

/// Terminals that may be open in one sandbox.
pub const TERMINALS_MAX: u32 = 256;
/// Ids of one sandbox, and their range on the host: above all ids that operators and distributions assign.
pub const UID_RANGE: u32 = 1 << 16;
pub const UID_FIRST: u32 = 0x8000_0000;
pub const UID_LAST: u32 = 0xfffe_0000;
/// User of everything but PID 1, as seen inside.
pub const SANDBOX_UID: u32 = 1000;

pub const MEMORY_MIN_MB: u64 = 16;
pub const PIDS_MIN: u64 = 16;
pub use hostd_core::limits::DISK_MIN_MB;
pub const CPUS_MIN: f64 = 0.01;
pub const CPU_PERIOD_US: u64 = 100_000;
/// Open files, unless hostd's own limit is lower.
pub const NOFILE_MAX: u64 = 1 << 20;
/// Common tools fail below this number of open files.
pub const NOFILE_LOW: u64 = 4096;

/// Sizes of the tmpfs mounts in percent of the memory limit, which their content counts against.
pub const TMP_PERCENT: u64 = 50;
pub const VAR_TMP_PERCENT: u64 = 25;
pub const SHM_PERCENT: u64 = 50;
/// Sizes of the tmpfs for device nodes and for control group mounts.
pub const DEV_TMPFS_BYTES: u64 = 64 << 10;
pub const SYS_TMPFS_BYTES: u64 = 64 << 10;

pub const IMAGE_NAME_MAX_BYTES: usize = 64;

/// Size and number of entries of a seed.
pub const SEED_MAX_BYTES: u64 = 4 << 30;
pub const SEED_MAX_ENTRIES: u64 = 1_000_000;

/// Entries of a workspace that are counted, as many as of a snapshot; and its names that are kept in memory meanwhile: of
/// directories that are still to be counted, and files with several hard links.
pub const MEASURE_MAX_ENTRIES: u64 = SNAPSHOT_MAX_ENTRIES;
pub const MEASURE_MAX_NAMES: u64 = 4_000_000;
/// What a workspace beyond these bounds counts as: more than a disk has, and so little that sums of it fit.
pub const MEASURED_BEYOND_BYTES: u64 = 1 << 50;
/// Directories open at once while a tree is walked; deeper ones are moved up first.
pub const TREE_DEPTH_MAX: usize = 64;

/// How long to wait for the parent to reap a PID 1 that exited; after that its exit status stays unknown.
pub const REAPED_MAX_MS: u64 = 50;
/// `image.json`, and `layer.json`.
pub const IMAGE_RECORD_MAX_BYTES: u64 = 4 << 20;
pub const LAYER_RECORD_MAX_BYTES: u64 = 4096;
/// Concurrent pulls, in total and for one tenant, and how long a pull waits for its slot.
pub const PULLS_MAX: usize = 4;
pub const PULLS_TENANT_MAX: usize = 3;
pub const PULL_WAIT_MAX_MS: u64 = 10 * 60 * 1000;
/// Layers of one image that are downloaded at the same time.
pub const LAYER_DOWNLOADS_MAX: usize = 4;

/// Files of a snapshot that is imported, and entries of any.
pub const SNAPSHOT_MAX_BYTES: u64 = 1 << 40;
pub const SNAPSHOT_MAX_ENTRIES: u64 = 20_000_000;
/// The manifest of a snapshot: its text, one path in it, and one line.
pub const MANIFEST_MAX_BYTES: u64 = 8 << 30;
pub const MANIFEST_PATH_MAX_BYTES: usize = 1 << 20;
pub const MANIFEST_LINE_MAX_BYTES: u64 = 8 << 20;
/// Depth of a tree that is walked, and names of one of its directories that are sorted at once.
pub const WALK_DEPTH_MAX: usize = 100_000;
pub const WALK_NAMES_MAX: usize = 1 << 18;
/// A file of at least this size that holds less than one in so many of its bytes is hashed without its zeros.
pub const SPARSE_FILE_MIN_BYTES: u64 = 1 << 20;
pub const SPARSE_FACTOR: u64 = 8;
/// In an archive: parts of one file between its holes, holes that are none, and the zeros that may be added to the parts.
pub const ARCHIVE_PARTS_MAX: usize = 40_000;
pub const ARCHIVE_HOLE_MIN_BYTES: u64 = 64 << 10;
pub const ARCHIVE_ZEROS_FACTOR: u64 = 8;
pub const ARCHIVE_ZEROS_MAX_BYTES: u64 = 64 << 20;
/// Paths of files with several names, which are kept in memory until all of their names were written.
pub const ARCHIVE_LINKS_MAX_BYTES: usize = 64 << 20;
/// The note of an archive.
pub const ARCHIVE_NOTE_MAX_BYTES: u64 = 64 << 10;
/// An export of which fewer bytes are taken while it waits for so long is given up.
pub const EXPORT_STALL_MAX_MS: u64 = 60_000;
pub const EXPORT_STALL_MIN_BYTES: usize = 64 << 10;
