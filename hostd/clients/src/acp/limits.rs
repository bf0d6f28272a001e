//! Limits of the protocol.

use std::time::Duration;

/// A JSON-RPC message of an editor: a WebSocket message, or the body of a POST. A prompt has a smaller limit of its own.
pub use protocol::api::ACP_MESSAGE_MAX_BYTES as MESSAGE_MAX_BYTES;
/// Messages that wait for a WebSocket or a stream; then their senders wait.
pub const OUTGOING_MAX: usize = 16;
/// Bytes of one message that wait for the socket.
pub const WRITE_BUFFER_MAX_BYTES: usize = 8 << 20;
/// Requests of one connection that are worked on at a time; prompts count until their task is stored.
pub const OPEN_REQUESTS_MAX: usize = 64;
/// Sessions that one connection has open.
pub const SESSIONS_OPEN_MAX: usize = 64;
/// Sessions of one sandbox: each is an entry of its metadata.
pub const SESSIONS_OF_SANDBOX_MAX: usize = 16;
/// Prompts of one session on one connection whose requests, or responses, are remembered.
pub const PROMPTS_REMEMBERED_MAX: usize = 256;
/// Tool calls of one task whose state is remembered, to repeat it whole in an update.
pub const TOOLS_REMEMBERED_MAX: usize = 2_048;
/// Tasks of one session that are replayed; older ones are left out.
pub const HISTORY_TASKS_MAX: usize = 1_000;
/// Tasks of one sandbox that wait at a time, as the API allows.
pub const WAITING_TASKS_MAX: usize = 64;
/// Tasks, events and sandboxes of one page of the API.
pub const PAGE_MAX: usize = 500;
/// Sandboxes of one page of `session/list`.
pub const LIST_PAGE_MAX: usize = 100;
/// A sandbox as the API shows it.
pub const SANDBOX_MAX_BYTES: usize = 1 << 20;
/// An event as the API shows it.
pub const EVENT_MAX_BYTES: usize = 4 << 20;

/// Length of the JSON text of a request id.
pub const REQUEST_ID_MAX_BYTES: usize = 256;
/// Length of an idempotency key that an editor chooses.
pub const MESSAGE_ID_MAX_BYTES: usize = 256;
/// Length of the editor's directory.
pub const CWD_MAX_BYTES: usize = 4_095;
/// Blocks of one prompt.
pub const PROMPT_BLOCKS_MAX: usize = 256;

/// Interval of pings, and how long an editor may be silent.
pub const PING: Duration = Duration::from_secs(20);
pub const SILENT_MAX: Duration = Duration::from_secs(60);
/// Pause before an event stream is opened again.
pub const RETRY: Duration = Duration::from_millis(500);
/// Interval of comments on a silent stream of server-sent events.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// Connections by HTTP that hostd remembers: of one token, of one tenant and of all. Beyond, the longest unused one of the
/// same token or tenant is forgotten, or of the tenant that has most.
pub const HTTP_CONNECTIONS_OF_TOKEN_MAX: usize = 64;
pub const HTTP_CONNECTIONS_OF_TENANT_MAX: usize = 256;
pub const HTTP_CONNECTIONS_MAX: usize = 1_024;
/// Responses of one connection by HTTP that were sent, and are kept for a reconnect.
pub const HTTP_KEPT_MAX: usize = 256;
pub const HTTP_KEPT_MAX_BYTES: usize = 4 << 20;
/// Bytes of all connections. Beyond, each keeps only what was not sent yet, and one such message.
pub const HTTP_KEPT_OF_ALL_MAX_BYTES: usize = 256 << 20;

/// Time to live of a sandbox that a session made, counted from its last prompt.
pub const SANDBOX_TTL: &str = "7d";
