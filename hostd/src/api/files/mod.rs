//! The files of a workspace over HTTP. A handler turns a request into a verb of the `files` crate; the backend has it
//! performed, by a thread of hostd or inside the sandbox; the reply becomes the response.
//!
//! **Invariant:** nothing here opens a path. Names, sizes and content come from a sandbox and are not trusted: responses
//! with content carry headers that keep browsers from running it.

mod archive;
mod backend;
mod conditions;
mod content;
mod entries;
mod failure;
mod links;
mod params;
pub(super) mod request_feed;
mod response_data;
mod routes;
mod safe_headers;
mod signed;
mod thread_exchange;
mod tree;
mod views;
mod watch;
mod watch_stream;

pub use backend::{FilesBackend, check_disk};
pub use routes::all as routes;
pub use signed::authenticate as authenticate_signature;
pub use watch::FileWatches;
