//! Agent Client Protocol: an editor talks to an agent that runs in a sandbox. A session is an entry in the metadata of its
//! sandbox, a prompt is a task, and what the agent does are the events of the task.
//!
//! ```text
//!  editor ── WebSocket, or POST and streams ──▶ connection ─▶ methods ─▶ sandboxes, tasks
//!         ◀── updates, permission requests ─── feed ◀── events of tasks
//! ```
//!
//! **Invariant:** what a restart of hostd forgets is only which requests wait for a response: a client that repeats them
//! gets the same session and the same task. Nothing is asked of the editor's machine but permissions: files and terminals
//! are those of the sandbox.

mod attached;
mod authentication;
mod config_options;
mod connection;
mod events;
mod feed;
mod history;
mod http;
mod http_connections;
mod kept_stream;
mod limits;
mod methods;
mod outbox;
mod params;
mod permission_answer;
mod prompt;
mod prompt_end;
mod record;
mod rpc;
mod serve;
mod session_id;
mod session_methods;
mod socket;
mod submit;
mod translate;

pub use serve::{Acp, serve};
