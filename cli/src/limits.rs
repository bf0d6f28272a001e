//! Every limit of the command, with its unit.

use std::time::Duration;

/// To reach hostd.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For an answer that nobody has to wait for.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// For a verb that waits until a sandbox has settled; hostd's own deadlines are shorter.
pub const SETTLE_TIMEOUT: Duration = Duration::from_secs(600);
/// What a create asks hostd to wait before it answers with what there is: what takes longer is watched.
pub const CREATE_WAIT_S: u64 = 3;
/// Between two lines about what is going on, where they are not written over.
pub const PROGRESS_LINE_EVERY: Duration = Duration::from_secs(5);
/// Between two looks at a sandbox that has not settled.
pub const SETTLE_POLL: Duration = Duration::from_millis(200);

/// For hostd to drain and end.
pub const HOSTD_STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest answer that is not a stream, in bytes.
pub const RESPONSE_MAX_BYTES: usize = 64 << 20;
/// Longest line of a stream, in bytes: a chunk of output with its JSON around it is far below.
pub const LINE_MAX_BYTES: usize = 16 << 20;
/// Items asked for at once in a list.
pub const PAGE_ITEMS: u32 = 500;
/// Items of a list that the command is willing to hold.
pub const LIST_MAX_ITEMS: usize = 1_000_000;

/// How long a follower tries to reach a hostd that went away.
pub const RETRY_GIVE_UP_AFTER: Duration = Duration::from_secs(300);
pub const RETRY_DELAY_INITIAL: Duration = Duration::from_millis(50);
pub const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);
/// The same where somebody follows events for as long as there are any.
pub const EVENT_RETRY_DELAY_MAX: Duration = Duration::from_secs(5);
/// Longest pause before a reconnect that hostd may ask for.
pub const EVENT_RETRY_SERVER_DELAY_MAX: Duration = Duration::from_secs(30);
/// A stream of events without a byte for so long is dead: hostd sends a heartbeat every 15 s.
pub const EVENT_SILENCE_MAX: Duration = Duration::from_secs(60);
/// Bytes of a stream of events within which there must be an event.
pub const FRAME_MAX_BYTES: usize = 16 << 20;
/// Bytes given to the parser of frames at once: it copies what is left after every line.
pub const FRAME_PIECE_BYTES: usize = 4 << 10;
/// After so long without hostd the person is told.
pub const RETRY_NOTIFY_AFTER: Duration = Duration::from_secs(1);

/// Bytes of standard input sent at once, and how many such pieces may wait.
pub const STDIN_PIECE_BYTES: usize = 64 << 10;
pub const STDIN_PIECES: usize = 4;

/// Longest prompt that is read from standard input, in bytes; hostd may take less.
pub const PROMPT_MAX_BYTES: u64 = 1 << 20;
/// Tool calls without an outcome that are remembered.
pub const OPEN_TOOLS_MAX: usize = 256;
/// Between two looks at a task whose end is waited for.
pub const TASK_POLL: Duration = Duration::from_millis(500);
/// One message of a terminal, in bytes: a piece of output is far below.
pub const TERMINAL_MESSAGE_MAX_BYTES: usize = 1 << 20;
/// hostd pings more often; one that is silent for so long is gone.
pub const TERMINAL_SILENCE_MAX: Duration = Duration::from_secs(60);
/// For the last keys to go out when a terminal is left.
pub const TERMINAL_FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
/// Keys typed while hostd is away, in bytes.
pub const KEYS_BUFFERED_MAX_BYTES: usize = 4 << 10;

/// For hostd to find out how a command ended whose sandbox went away.
pub const EXIT_KNOWN_WITHIN: Duration = Duration::from_secs(3);

/// For hostd to say what a word could be completed to; somebody waits with a finger on Tab.
pub const COMPLETION_TIMEOUT: Duration = Duration::from_secs(1);
/// Newest tasks and commands that are offered.
pub const COMPLETION_ITEMS: u32 = 50;

/// Nothing is said about what takes less.
pub const SPINNER_AFTER: Duration = Duration::from_millis(500);
pub const SPINNER_EVERY: Duration = Duration::from_millis(100);
/// Between two frames of `top`.
pub const TOP_EVERY: Duration = Duration::from_secs(2);
/// Between the two samples that the first frame of `top` needs.
pub const TOP_SAMPLE: Duration = Duration::from_millis(500);

/// For hostd to serve after it was started.
pub const HOSTD_START_TIMEOUT: Duration = Duration::from_secs(30);
pub const HOSTD_POLL: Duration = Duration::from_millis(25);
/// Of hostd's log, shown when it does not start.
pub const HOSTD_LOG_LINES: usize = 10;
pub const HOSTD_LOG_READ_BYTES: u64 = 16 << 10;
/// A key that somebody gives us.
pub const SECRET_MAX_BYTES: u64 = 16 << 10;
