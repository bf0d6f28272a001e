//! What drivers of this machine's own kernel share: where files are, how PID 1 is found, dialled, watched
//! and ended, control groups, root file systems, badges.
//!
//! **Invariant:** nothing here asks a daemon. What runs is seen by its process.

pub mod badge;
pub mod cgroup;
pub mod dial;
pub mod ending;
pub mod files;
#[cfg(test)]
pub mod fixture;
pub mod ground;
pub mod ids;
pub mod images;
pub mod init;
pub mod kernel;
pub mod layout;
pub mod limits;
pub mod measure;
mod netns;
pub mod owner;
pub mod pid_namespace;
pub mod request;
pub mod seccomp;
mod syscalls;
pub mod trash;
pub mod tree;
pub mod trial;
pub mod workspace;
