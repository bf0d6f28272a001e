//! The capabilities of the calling thread.

#![allow(unsafe_code)] // capget and capset

use nix::{errno::Errno, libc};
use std::io;

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;
const CAP_SYS_RESOURCE: u32 = 24;

#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Takes from this thread the right to exceed quotas, which root has on ext4.
pub fn drop_quota_override() -> io::Result<()> {
    change(|sets| sets[0].effective &= !(1 << CAP_SYS_RESOURCE))
}

/// Gives this thread every capability that it may have: a change of its file system user takes some of them away.
pub fn raise_all() -> io::Result<()> {
    change(|sets| sets.iter_mut().for_each(|set| set.effective = set.permitted))
}

fn change(change: impl FnOnce(&mut [Sets; 2])) -> io::Result<()> {
    let mut header = Header { version: CAPABILITY_VERSION_3, pid: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: the kernel reads the header and writes two sets, as version 3 says.
    Errno::result(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) })?;
    change(&mut sets);
    // SAFETY: the kernel reads the header and two sets; they concern the calling thread only.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::{Uid, setfsuid};

    fn effective() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("there");
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("a line").trim();
        u64::from_str_radix(line, 16).expect("a number")
    }

    #[test]
    fn a_thread_gives_up_its_quota_override_alone() {
        let before = effective();
        let inside = std::thread::spawn(move || drop_quota_override().map(|()| effective()));
        let inside = inside.join().expect("no panic").expect("a thread may drop a capability");
        assert_eq!(inside, before & !(1 << CAP_SYS_RESOURCE));
        assert_eq!(effective(), before);
    }

    #[test]
    fn another_file_system_user_costs_capabilities_until_they_are_raised() {
        let before = effective();
        let thread = std::thread::spawn(move || {
            setfsuid(Uid::from_raw(70_000));
            let lowered = effective();
            raise_all().map(|()| (lowered, effective()))
        });
        let (lowered, raised) = thread.join().expect("no panic").expect("a thread may raise what it has");
        assert!(lowered != before && raised == before, "{lowered:x} {raised:x}");
    }
}
