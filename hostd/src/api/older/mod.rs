//! The older routes, for clients of the predecessor system: its paths, types and error codes, over the same
//! fleet, store and access rules. Nothing is decided here that `/v1` does not decide too;
//! docs/older-routes.md says where the two differ.

mod error;
mod exec;
mod exec_stream;
mod lifecycle;
mod request;
mod routes;
mod sandboxes;
mod view;

pub use error::{OlderError, respond};
pub use request::EXTERNAL_MAX_CHARS;
pub use routes::all;
