//! The disk: how much of it the workspace uses, and whether any is left.
//!
//! Must not: follow a symbolic link, leave the file system of the workspace, or take long at a time.

mod open_beneath;
mod pending;
mod space;
mod walk;

pub use space::is_full;
pub use walk::Walk;
