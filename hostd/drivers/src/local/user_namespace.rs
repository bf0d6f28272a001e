//! A user namespace that no process is in: it says which ids an idmapped mount shows.

#![allow(unsafe_code)] // clone, and a child that shares the memory of its parent

use nix::{
    errno::Errno,
    libc,
    sys::{
        signal::{SigSet, SigmaskHow, Signal, kill, pthread_sigmask},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use std::{fs::File, io, os::fd::OwnedFd, ptr};

/// The child makes two system calls.
const STACK_BYTES: usize = 16 << 10;

/// Returns a user namespace in which `count` ids from 0 on are those from `first` on here.
pub fn with_ids(first: u32, count: u32) -> io::Result<OwnedFd> {
    let mut stack = vec![0; STACK_BYTES];
    let child = spawn_holder(&mut stack)?;
    let opened = open_mapped(child, &format!("0 {first} {count}"));
    let _ = kill(child, Signal::SIGKILL);
    // It has no exit signal, so that no other waiter of this process hears of it. The stack must outlive it.
    let ended = loop {
        match waitpid(child, Some(WaitPidFlag::__WALL)) {
            Err(Errno::EINTR) => {}
            ended => break ended?,
        }
    };
    if !matches!(ended, WaitStatus::Signaled(_, Signal::SIGKILL, _)) {
        return Err(io::Error::other(format!("the process that holds a user namespace ended: {ended:?}")));
    }
    opened
}

/// Starts a process that holds a new user namespace until it is killed. It shares our memory: nothing is copied, however
/// large this process is.
fn spawn_holder(stack: &mut [u8]) -> Result<Pid, Errno> {
    // No handler of ours runs in the child: all signals are blocked there, as it inherits the mask.
    let mut mask = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut mask))?;
    let flags = libc::CLONE_NEWUSER | libc::CLONE_VM;
    let top = stack.as_mut_ptr_range().end;
    // SAFETY: the child runs `hold`, which uses nothing but its stack, and that outlives it. It gets no argument: memory
    // of this function would be something else before the child reads it, as we go on at once.
    let child = unsafe {
        let aligned = top.sub(top as usize % 16).cast();
        libc::clone(hold, aligned, flags, ptr::null_mut())
    };
    let child = Errno::result(child);
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&mask), None)?;
    child.map(Pid::from_raw)
}

/// Waits to be killed.
extern "C" fn hold(_: *mut libc::c_void) -> libc::c_int {
    // SAFETY: system calls that touch no memory. They succeed or never return, so that `errno`, which the child shares
    // with our thread, is not written.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        loop {
            libc::syscall(libc::SYS_pause);
        }
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

    /// Each holder has to be alive when its namespace was opened: more threads than cores, so that many start late.
    #[test]
    fn namespaces_are_made_on_several_threads_at_once() {
        let make = |first: u32| {
            std::thread::spawn(move || (0..64).try_for_each(|_| with_ids(first, 65_536).map(drop)))
        };
        let threads: Vec<_> = (1..17).map(|number| make(number << 16)).collect();
        for thread in threads {
            thread.join().expect("no panic").expect("made");
        }
    }
}
