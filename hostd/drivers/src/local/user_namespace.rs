//! A user namespace that no process is in: it says which ids an idmapped mount shows.

#![allow(unsafe_code)] // clone, and a child that shares the memory of its parent

use nix::{
    errno::Errno,
    libc,
    sched::{CloneFlags, clone},
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};
use std::{fs::File, io, os::fd::OwnedFd};

/// The child makes two system calls.
const STACK_BYTES: usize = 16 << 10;

/// Returns a user namespace in which `count` ids from 0 on are those from `first` on here.
pub fn with_ids(first: u32, count: u32) -> io::Result<OwnedFd> {
    let mut stack = vec![0; STACK_BYTES];
    let child = spawn_holder(&mut stack)?;
    let opened = open_mapped(child, &format!("0 {first} {count}"));
    let _ = kill(child, Signal::SIGKILL);
    // It has no exit signal, so that no other waiter of this process hears of it. The stack must outlive it.
    while waitpid(child, Some(WaitPidFlag::__WALL)) == Err(Errno::EINTR) {}
    opened
}

/// Starts a process that holds a new user namespace until it is killed. It shares our memory: nothing is copied, however
/// large this process is.
fn spawn_holder(stack: &mut [u8]) -> Result<Pid, Errno> {
    let wait_for_the_end = || -> isize {
        // SAFETY: system calls that touch no memory. They succeed or never return, so that `errno`, which the child
        // shares with our thread, is not written.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            loop {
                libc::syscall(libc::SYS_pause);
            }
        }
    };
    // SAFETY: the child uses nothing but its stack, which outlives it.
    unsafe {
        clone(Box::new(wait_for_the_end), stack, CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_VM, None)
    }
}

fn open_mapped(child: Pid, map: &str) -> io::Result<OwnedFd> {
    for file in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{child}/{file}"), map)?;
    }
    Ok(File::open(format!("/proc/{child}/ns/user"))?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_made_on_several_threads_at_once() {
        let make = |first: u32| std::thread::spawn(move || with_ids(first, 65_536).map(drop));
        let threads: Vec<_> = (1..17).map(|number| make(number << 16)).collect();
        for thread in threads {
            thread.join().expect("no panic").expect("made");
        }
    }
}
