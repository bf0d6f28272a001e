//! Finds the process that holds a socket, by searching the descriptors of all processes.
//!
//! Must not: search unless something is wanted, or go on once everything is found. Descriptors of a job are
//! only readable as its user, those of runtimed itself only as root.

use super::buffer::pids;
use crate::limits::PROC_FDS_MAX;
use crate::sys::fs_identity::{FsIdentityGuard, Identity};
use nix::dir::{Dir, Entry};
use nix::fcntl::{OFlag, readlinkat};
use nix::sys::stat::Mode;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;

/// For each of `count` ports the process that holds one of its sockets; `wanted` maps socket inodes to ports.
/// The process with the lowest pid wins, which is mostly the parent of the others.
pub fn find(identity: Identity, wanted: &HashMap<u64, usize>, count: usize) -> Vec<Option<i32>> {
    let mut search = Search { wanted, owners: vec![None; count], missing: count, fds_left: PROC_FDS_MAX };
    if wanted.is_empty() {
        return search.owners;
    }
    let all_pids: Vec<i32> = pids().collect();
    let unseen = match FsIdentityGuard::enter(identity) {
        Ok(_user) => search.search_all(all_pids),
        // Not PID 1 of a sandbox, but a manual run: descriptors are read as the current user.
        Err(_) => all_pids,
    };
    search.search_all(unseen);
    search.owners
}

struct Search<'a> {
    wanted: &'a HashMap<u64, usize>,
    owners: Vec<Option<i32>>,
    missing: usize,
    fds_left: usize,
}

impl Search<'_> {
    /// Searches processes; returns those whose descriptors may not be read.
    fn search_all(&mut self, pids: Vec<i32>) -> Vec<i32> {
        let mut denied = Vec::new();
        for pid in pids {
            if self.missing == 0 || self.fds_left == 0 {
                break;
            }
            if self.search_process(pid).is_err() {
                denied.push(pid);
            }
        }
        denied
    }

    fn search_process(&mut self, pid: i32) -> nix::Result<()> {
        let path = format!("/proc/{pid}/fd");
        let mut directory =
            Dir::open(path.as_str(), OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        let entries: Vec<Entry> = directory.iter().map_while(Result::ok).take(self.fds_left).collect();
        self.fds_left -= entries.len();
        for entry in entries {
            // "." and "..", and descriptors closed meanwhile, are no links.
            let Ok(link) = readlinkat(&directory, entry.file_name()) else { continue };
            if let Some(thing) = socket_inode(link.as_bytes()).and_then(|inode| self.wanted.get(&inode)) {
                self.record_owner(*thing, pid);
            }
        }
        Ok(())
    }

    fn record_owner(&mut self, thing: usize, pid: i32) {
        if let Some(owner) = self.owners.get_mut(thing).filter(|owner| owner.is_none()) {
            *owner = Some(pid);
            self.missing -= 1;
        }
    }
}

/// Parses `socket:[4711]`.
fn socket_inode(link: &[u8]) -> Option<u64> {
    let digits = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_have_an_inode() {
        for (link, expected) in [
            (&b"socket:[4711]"[..], Some(4711)),
            (b"socket:[18446744073709551615]", Some(u64::MAX)),
            (b"socket:[18446744073709551616]", None),
            (b"socket:[]", None),
            (b"socket:[47", None),
            (b"pipe:[4711]", None),
            (b"/home/sandbox/socket:[4711]", None),
            (b"\xff", None),
        ] {
            assert_eq!(socket_inode(link), expected, "{:?}", String::from_utf8_lossy(link));
        }
    }

    #[test]
    fn the_first_process_seen_owns_a_thing_and_the_search_counts_down_once() {
        let wanted = HashMap::new();
        let mut search = Search { wanted: &wanted, owners: vec![None; 2], missing: 2, fds_left: 0 };
        for (thing, pid, missing) in [(1, 7, 1), (1, 8, 1), (9, 9, 1), (0, 9, 0), (0, 10, 0)] {
            search.record_owner(thing, pid);
            assert_eq!(search.missing, missing);
        }
        assert_eq!(search.owners, [Some(9), Some(7)]);
    }
}
