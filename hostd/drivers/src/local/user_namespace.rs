//! A user namespace that no process is in: it says which ids an idmapped mount shows.

use nix::{
    errno::Errno,
    sched::{CloneFlags, unshare},
    sys::{
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::{ForkResult, Pid, fork, pause, pipe, read},
};
use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
};

/// Returns a user namespace in which `count` ids from 0 on are those from `first` on here. Forks: only for a process
/// with one thread.
pub fn with_ids(first: u32, count: u32) -> io::Result<OwnedFd> {
    let (ready, child_ready) = pipe()?;
    let child = spawn_holder(&child_ready)?;
    drop(child_ready);
    let opened = open_mapped(child, &ready, &format!("0 {first} {count}"));
    let _ = kill(child, Signal::SIGKILL);
    let _ = waitpid(child, None);
    opened
}

/// Forks a process that holds a new user namespace until it is killed.
#[allow(unsafe_code)]
fn spawn_holder(ready: &impl AsFd) -> Result<Pid, Errno> {
    // SAFETY: this process has one thread, and the child calls nothing but system calls.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            if unshare(CloneFlags::CLONE_NEWUSER).is_ok() && nix::unistd::write(ready, b"1").is_ok() {
                pause();
            }
            // SAFETY: ends the child alone, without the exit handlers of its parent.
            unsafe { nix::libc::_exit(1) }
        }
    }
}

fn open_mapped(child: Pid, ready: &OwnedFd, map: &str) -> io::Result<OwnedFd> {
    if read(ready, &mut [0])? != 1 {
        return Err(io::Error::other("the kernel refuses a user namespace"));
    }
    for file in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{child}/{file}"), map)?;
    }
    Ok(File::open(format!("/proc/{child}/ns/user"))?.into())
}
