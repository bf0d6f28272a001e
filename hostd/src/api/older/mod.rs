//! The older routes, for clients of the system that came before: its paths, its shapes and its words for
//! errors, over the same fleet, the same store and the same rules about who may do what. Nothing is decided
//! here that `/v1` does not decide too; see docs/older-routes.md for where the two differ.

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
