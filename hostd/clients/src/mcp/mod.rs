//! The Model Context Protocol at `/mcp`: streamable HTTP, for models that use sandboxes as tools.
//!
//! ```text
//!  POST ─▶ transport: credential, session ─▶ methods ─▶ tools, resources ─▶ ApiClient
//!                                                        │ exec, task, create: work with a log of ours
//!  GET, Last-Event-ID ─▶ event_id: work and position ─▶ follow ─▶ server-sent events
//! ```
//!
//! Types and framing of messages are those of the crate `rmcp`. Its HTTP transport is not used: it keeps sessions and the
//! events of streams in memory (or in a store that would have to hold them all again), and runs a call as a future that
//! ends with the process. Here a call that takes long is an exec, a task or a sandbox of Slipway, which outlive hostd;
//! the id of a session is signed and holds all of the session; the id of an event names the work and the position in its
//! log. So nothing has to be kept, and a client that was cut off, by a kill of hostd too, goes on where it was.
//!
//! A request that is sent again in its session finds what the first one started, because the ids of execs, tasks and
//! created sandboxes follow from session and request (`call::work_id`).
//!
//! **Invariant:** the only state in memory is of calls that have not begun their work yet (`starting`).

mod address;
mod call;
mod cancel;
mod event_id;
mod follow;
mod limits;
mod lines;
mod messages;
mod methods;
mod once;
mod resources;
mod revision;
mod session;
mod starting;
mod tools;
mod transport;

pub use transport::serve;

/// Calls of clients that are being worked on.
#[derive(Default)]
pub struct McpCalls {
    starting: starting::StartingCalls,
    in_progress: once::CallsInProgress,
}
