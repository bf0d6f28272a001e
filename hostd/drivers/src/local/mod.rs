//! Shared code of drivers on this host's kernel: paths, finding, dialling, watching and ending PID 1, control
//! groups, root file systems, badges.
//!
//! **Invariant:** nothing here asks a daemon. Whether a sandbox runs is decided by its process.

pub mod blueprint_checks;
pub mod capabilities;
pub mod cgroup;
pub mod chown_tree;
pub mod container_paths;
pub mod disk_usage;
pub mod files;
#[cfg(test)]
pub mod fixture;
pub mod host_checks;
pub mod id_map;
pub mod images;
pub mod init;
pub mod init_exit;
pub mod layout;
pub mod leftovers;
pub mod limits;
pub mod local_driver;
mod netns_sockets;
pub mod pid_namespace;
pub mod pidfd;
pub mod probe_sandbox;
pub mod quota;
pub mod remove_tree;
pub mod resizes;
pub mod sandbox_dialer;
pub mod seccomp;
pub mod seed;
pub mod signed_badge;
pub mod snapshots;
mod syscall_table;
pub mod trash;
pub mod user_namespace;
pub mod workspace;
