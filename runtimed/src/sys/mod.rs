//! The kernel: the only place with system calls about processes, users, control groups and terminals.

pub mod as_user;
pub mod cgroup;
pub mod clock;
pub mod descriptors;
pub mod disk;
pub mod emergency;
pub mod id;
pub mod inherited;
pub mod loopback;
pub mod packet;
pub mod procfs;
pub mod programs;
pub mod pty;
pub mod ready;
pub mod reap;
pub mod scratch;
pub mod signals;
pub mod socket;
pub mod spawn;
pub mod user_files;
pub mod watch;
