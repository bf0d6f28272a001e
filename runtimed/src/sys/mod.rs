//! The kernel: the only place with system calls about processes, users, control groups and terminals.

pub mod async_fd;
pub mod cgroup;
pub mod clock;
pub mod disk;
pub mod fd_limit;
pub mod fs_identity;
pub mod inherited_fds;
pub mod inotify;
pub mod kill_all;
pub mod loopback;
pub mod packet;
pub mod procfs;
pub mod programs;
pub mod pty;
pub mod reap;
pub mod signals;
pub mod socket;
pub mod spawn;
pub mod tmp_dirs;
pub mod ulid;
pub mod user_files;
