//! The verbs on the files of a workspace. hostd performs them on a thread for workspaces of this machine; runtimed
//! performs them in a short-lived process inside the sandbox for the others.
//!
//! ```text
//! FilesRequest ─▶ perform ─▶ verb ─▶ Workspace (openat2) ─▶ kernel
//!      body ────▶ Exchange ────────▶ reply, bytes
//! ```
//!
//! **Invariant:** no path reaches the kernel except through [`Workspace`], which resolves it beneath the top of the
//! workspace, or as a single name below a directory that was opened so. No check of a path's text is part of that.
//!
//! **Invariant:** only regular files are opened for reading or writing, never a FIFO, a device or a socket.
//!
//! The content is hostile: every walk, archive and search has a limit in [`limits`] and a deadline.

// A new variant of an enum must break every match that does not deal with it, but for tests that panic on the rest.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod archive;
mod copy;
mod deadline;
mod delete;
mod directory;
mod entry;
mod error;
mod exchange;
pub mod frames;
mod identity;
mod install;
pub mod limits;
mod list;
mod mkdir;
mod perform;
mod read;
mod rename;
mod search;
mod selection;
mod temporary;
#[cfg(test)]
mod tests;
mod times;
mod walk;
mod watch;
mod workspace;
mod write;
mod write_many;

pub use error::FilesError;
pub use exchange::{BodyReader, Exchange};
pub use identity::{SandboxUser, UserGuard};
pub use perform::perform;
pub use workspace::Workspace;
