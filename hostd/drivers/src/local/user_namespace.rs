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

/// The child makes three system calls.
const STACK_BYTES: usize = 16 << 10;

/// Returns a user namespace in which `count` ids from 0 on are those from `first` on here.
pub fn with_ids(first: u32, count: u32) -> io::Result<OwnedFd> {
    let mut stack = vec![0; STACK_BYTES];
    let child = spawn_holder(&mut stack, Pid::this())?;
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

/// Starts a process that holds a new user namespace until it is killed, or `parent` is gone. It shares our memory: nothing
/// is copied, however large this process is.
fn spawn_holder(stack: &mut [u8], parent: Pid) -> Result<Pid, Errno> {
    // No handler of ours runs in the child: all signals are blocked there, as it inherits the mask.
    let mut mask = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut mask))?;
    let flags = libc::CLONE_NEWUSER | libc::CLONE_VM;
    let (top, id) = (stack.as_mut_ptr_range().end, usize::try_from(parent.as_raw()).unwrap_or(0));
    // SAFETY: the child runs `hold`, which uses nothing but its stack, and that outlives it. Its argument is a number:
    // memory of this function would be something else before the child reads it, as we go on at once.
    let child = unsafe {
        let aligned = top.sub(top as usize % 16).cast();
        libc::clone(hold, aligned, flags, ptr::without_provenance_mut(id))
    };
    let child = Errno::result(child);
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&mask), None)?;
    child.map(Pid::from_raw)
}

/// Waits to be killed. `parent` is the id of the process that started this one: where that is gone before the kernel was
/// asked to tell of its death, nothing would end this process, and it has copies of the lock and the sockets of hostd.
extern "C" fn hold(parent: *mut libc::c_void) -> libc::c_int {
    // SAFETY: system calls that touch no memory. They succeed or never return, so that `errno`, which the child shares
    // with our thread, is not written.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if usize::try_from(libc::getppid()) != Ok(parent.addr()) {
            libc::_exit(1);
        }
        loop {
            // Not `pause`, which ARM does not have.
            libc::syscall(libc::SYS_ppoll, ptr::null::<libc::c_void>(), 0, ptr::null::<libc::c_void>(), 0, 0);
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

    #[test]
    fn a_holder_whose_parent_was_gone_before_it_began_ends() {
        let mut stack = vec![0; STACK_BYTES];
        // The parent is another process than the one that started it, as after the death of that one.
        let child = spawn_holder(&mut stack, Pid::from_raw(1)).expect("started");
        let ended = waitpid(child, Some(WaitPidFlag::__WALL)).expect("a child");
        assert_eq!(ended, WaitStatus::Exited(child, 1));
    }

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
