//! Git verbs. git runs in the sandbox, as its user, with a fixed environment and without hooks; only pushes and fetches
//! reach a server, through the git gateway (`crate::git`).
//!
//! ```text
//!  local:    handler ─▶ runner ─▶ exec of git in the sandbox ─▶ core::git_output
//!  network:  handler ─▶ remote (which repository) ─▶ grant ─▶ exec of a script: git in a fresh repository that borrows
//!            the objects of the sandbox's one, so that no configuration of that is read ─▶ gateway
//! ```

mod branch;
mod commit;
mod inspect;
mod network;
mod problem;
mod remote;
mod routes;
mod runner;

pub use routes::all as routes;
