//! Limits and timeouts of the command, each with its unit.

use std::time::Duration;

/// To connect to hostd.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For a response that does not wait for anything.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// For a revert of a large tree; hostd's own deadline is shorter.
pub const REVERT_TIMEOUT: Duration = Duration::from_secs(35 * 60);
/// For an operation that waits until a sandbox has settled; hostd's own deadlines are shorter.
pub const SETTLE_TIMEOUT: Duration = Duration::from_secs(600);
/// For a push or a fetch; the deadline of hostd is shorter.
pub const GIT_NETWORK_TIMEOUT: Duration = Duration::from_secs(1_000);
/// Seconds that hostd waits before it responds to a create; after that the command polls.
/// Bytes of an archive of dotfiles that are read; hostd takes fewer.
pub const DOTFILES_READ_MAX_BYTES: u64 = 2 << 20;
pub const CREATE_WAIT_S: u64 = 3;
/// Between two progress lines where standard error is not a terminal.
pub const PROGRESS_LINE_EVERY: Duration = Duration::from_secs(5);
/// Between two polls of a sandbox that has not settled.
pub const SETTLE_POLL: Duration = Duration::from_millis(200);

/// For hostd to drain and exit.
pub const HOSTD_STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest response that is not a stream, in bytes.
pub const RESPONSE_MAX_BYTES: usize = 64 << 20;
/// Longest line of a stream, in bytes; a chunk of output as JSON is far below.
pub const LINE_MAX_BYTES: usize = 16 << 20;
/// Items per page of a list.
pub const PAGE_ITEMS: u32 = 500;
/// Items of a list that are held in memory.
pub const LIST_MAX_ITEMS: usize = 1_000_000;

/// How long output streams retry an unreachable hostd.
pub const RETRY_GIVE_UP_AFTER: Duration = Duration::from_secs(300);
pub const RETRY_DELAY_INITIAL: Duration = Duration::from_millis(50);
pub const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);
/// Longest delay between retries of an event stream, which never gives up.
pub const EVENT_RETRY_DELAY_MAX: Duration = Duration::from_secs(5);
/// Longest reconnect delay that hostd may request.
pub const EVENT_RETRY_SERVER_DELAY_MAX: Duration = Duration::from_secs(30);
/// Silence after which an event stream is dead: hostd sends a heartbeat every 15 s.
pub const EVENT_SILENCE_MAX: Duration = Duration::from_secs(60);
/// Longest SSE frame, in bytes.
pub const FRAME_MAX_BYTES: usize = 16 << 20;
/// Bytes passed to the SSE parser at once: it copies the rest after every line.
pub const FRAME_PIECE_BYTES: usize = 4 << 10;
/// Time without hostd after which the user is notified.
pub const RETRY_NOTIFY_AFTER: Duration = Duration::from_secs(1);

/// Bytes of standard input per request, and how many such chunks may be queued.
pub const STDIN_PIECE_BYTES: usize = 64 << 10;
pub const STDIN_PIECES: usize = 4;

/// Longest prompt read from standard input, in bytes; hostd's limit may be lower.
pub const PROMPT_MAX_BYTES: u64 = 1 << 20;
/// Tool calls without a result that are remembered.
pub const OPEN_TOOLS_MAX: usize = 256;
/// Between two polls of a task that is being cancelled.
pub const TASK_POLL: Duration = Duration::from_millis(500);
/// Longest WebSocket message of a terminal, in bytes; a chunk of output is far below.
pub const TERMINAL_MESSAGE_MAX_BYTES: usize = 1 << 20;
/// Silence after which a terminal connection is dead; hostd pings more often.
pub const TERMINAL_SILENCE_MAX: Duration = Duration::from_secs(60);
/// To flush the last keys on detach.
pub const TERMINAL_FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
/// Keys buffered while hostd is unreachable, in bytes.
pub const KEYS_BUFFERED_MAX_BYTES: usize = 4 << 10;

/// Longest WebSocket message of a tunnel, in bytes; what hostd sends is far below.
pub const TUNNEL_MESSAGE_MAX_BYTES: usize = 1 << 20;
/// Bytes of one read of a forwarded connection.
pub const TUNNEL_READ_BYTES: usize = 16 << 10;
/// Interval of pings on a tunnel, and the silence after which it is dead; hostd pings as often.
pub const TUNNEL_PING_EVERY: Duration = Duration::from_secs(20);
pub const TUNNEL_SILENCE_MAX: Duration = Duration::from_secs(60);
/// To tell hostd that the local program is gone.
pub const TUNNEL_CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Connections to one forwarded port at once; more wait.
pub const FORWARD_CONNECTIONS_MAX: usize = 256;
/// How long a new connection waits for a hostd that restarts, and how often it tries.
pub const FORWARD_RETRY_MAX: Duration = Duration::from_secs(10);
pub const FORWARD_RETRY_EVERY: Duration = Duration::from_millis(200);
/// Pause after a failed accept.
pub const FORWARD_ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// The same failure is printed again after this time.
pub const FORWARD_REPORT_EVERY: Duration = Duration::from_secs(5);

/// For hostd to learn how a command ended whose sandbox died.
pub const EXIT_KNOWN_WITHIN: Duration = Duration::from_secs(3);

/// For completion candidates from hostd; the user waits after pressing Tab.
pub const COMPLETION_TIMEOUT: Duration = Duration::from_secs(1);
/// Newest tasks and execs that are offered.
pub const COMPLETION_ITEMS: u32 = 50;

/// Delay before the spinner is shown.
pub const SPINNER_AFTER: Duration = Duration::from_millis(500);
pub const SPINNER_EVERY: Duration = Duration::from_millis(100);
/// Between two frames of `top`.
pub const TOP_EVERY: Duration = Duration::from_secs(2);
/// Between the two samples that the first frame of `top` needs.
pub const TOP_SAMPLE: Duration = Duration::from_millis(500);

/// For hostd to serve after it was started.
pub const HOSTD_START_TIMEOUT: Duration = Duration::from_secs(30);
pub const HOSTD_POLL: Duration = Duration::from_millis(25);
/// Last lines of hostd's log, shown when it does not start.
pub const HOSTD_LOG_LINES: usize = 10;
pub const HOSTD_LOG_READ_BYTES: u64 = 16 << 10;
/// Longest secret that is read, in bytes.
pub const SECRET_MAX_BYTES: u64 = 64 << 10;

/// Entries per page of a list of files.
pub const FILES_PAGE_ITEMS: u32 = 5_000;
/// Bytes of one chunk of a transfer, and how many may be queued between a thread and its connection.
pub const TRANSFER_CHUNK_BYTES: usize = 64 << 10;
pub const TRANSFER_CHUNKS: usize = 4;
/// For a transfer, however large; a dead connection is found by the kernel.
pub const TRANSFER_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Entries of an archive that were left out and are named.
pub const SKIPPED_SHOWN: usize = 20;
/// Largest file that is opened in an editor, in bytes.
pub const EDIT_MAX_BYTES: u64 = 64 << 20;

/// Changes of a sandbox that wait for a synchronisation.
pub const SYNC_CHANGES_QUEUED: usize = 1024;
/// After the first change of a group, before it is looked at.
pub const SYNC_SETTLE: Duration = Duration::from_millis(150);
/// Between two looks where nothing can be watched, or hostd restarts.
pub const SYNC_POLL: Duration = Duration::from_secs(2);
/// Between two lists of the whole tree.
pub const SYNC_LIST_EVERY: Duration = Duration::from_secs(1);
/// Changed paths that are looked at one by one; for more the tree is listed.
pub const SYNC_STATS_MAX: usize = 64;
/// Passes over a tree that changes all the time, before the next change is waited for.
pub const SYNC_PASSES_MAX: usize = 16;
/// Steps after which the state is written.
pub const SYNC_SAVE_EVERY: usize = 500;

/// Longest URL of a hostd, in bytes.
pub const URL_MAX_BYTES: usize = 2_048;
/// Largest CA file, in bytes; the roots of a system are far below.
pub const CA_FILE_MAX_BYTES: u64 = 4 << 20;
/// Largest file of contexts, in bytes, and how many it may have.
pub const CONTEXTS_MAX_BYTES: u64 = 4 << 20;
pub const CONTEXTS_MAX: usize = 1_000;
/// Longest name of a context, in bytes.
pub const CONTEXT_NAME_MAX_BYTES: usize = 64;

/// A snapshot that is taken, read or restored as a whole.
pub const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(3600);

/// Messages of hostd to an editor: an event as large as hostd stores it, and what is around it.
pub const ACP_RECEIVED_MAX_BYTES: usize = 8 << 20;
/// Messages of an editor that wait while the connection is down.
pub const ACP_WAITING_MAX: usize = 1_024;
/// Permission requests whose answers are remembered, in case that an answer was lost.
pub const ACP_ANSWERS_MAX: usize = 256;

/// Messages for the client of `slipway mcp` that are queued.
pub const MCP_LINES_QUEUED: usize = 64;
/// Messages of that client that are under way at once; more wait.
pub const MCP_EXCHANGES_MAX: usize = 256;
/// For answers that are under way when that client has said all.
pub const MCP_END_TIMEOUT: Duration = Duration::from_secs(10);
