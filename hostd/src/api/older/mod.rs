//! The older routes, for clients of the system that came before: its paths, its shapes and its words for
//! errors, over the same fleet, the same store and the same rules about who may do what. Nothing is decided
//! here that `/v1` does not decide too; see docs/older-routes.md for where the two differ.

mod ask;
mod exec;
mod failure;
mod routes;
mod row;
mod sandboxes;
mod tail;
mod verbs;

pub use ask::EXTERNAL_MAX_CHARS;
pub use failure::{OlderError, respond};
pub use routes::all;
