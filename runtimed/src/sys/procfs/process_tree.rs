//! Descendants of a process. Used by the kill loop, so speed counts.
//!
//! Must not: be taken for a proof that no process is left. /proc is read while processes fork and die, and a
//! reader can miss one; only `wait` failing with ECHILD is a proof. Zombies are listed too.

use super::buffer::{Buffer, numbers_in, pids};
use super::stat;
use crate::limits::PROC_ENTRIES_MAX;
use std::collections::HashSet;
use std::io::ErrorKind;

/// The direct children of a process, of all its threads.
pub fn children(pid: i32) -> Vec<i32> {
    let mut source = Source::new();
    let mut found = Vec::new();
    source.children(pid, &mut found);
    found
}

/// All descendants of a process, parents before their children, without the process itself.
pub fn descendants(pid: i32) -> Vec<i32> {
    let mut source = Source::new();
    walk(pid, |parent, found| source.children(parent, found))
}

/// Walks breadth first. A process that moves to another parent meanwhile, or a reused pid, must neither be
/// listed twice nor cause a cycle.
fn walk(root: i32, mut children: impl FnMut(i32, &mut Vec<i32>)) -> Vec<i32> {
    let mut seen = HashSet::from([root]);
    let mut found = Vec::new();
    let mut next = Vec::new();
    children(root, &mut next);
    let mut read = 0;
    loop {
        found.extend(next.drain(..).filter(|pid| seen.insert(*pid)));
        found.truncate(PROC_ENTRIES_MAX);
        let Some(parent) = found.get(read) else { return found };
        read += 1;
        children(*parent, &mut next);
    }
}

/// Where children are read from. Not every kernel has `children` files; without them one pass over all
/// processes serves the whole request.
struct Source {
    buffer: Buffer,
    snapshot: Option<Snapshot>,
}

impl Source {
    fn new() -> Self {
        Self { buffer: Buffer::new(), snapshot: None }
    }

    fn children(&mut self, pid: i32, found: &mut Vec<i32>) {
        if self.snapshot.is_none() && self.listed(pid, found).is_ok() {
            return;
        }
        let snapshot = self.snapshot.get_or_insert_with(|| Snapshot::take(&mut self.buffer));
        found.extend(snapshot.children(pid));
    }

    /// Reads `children` files. A thread that just ended looks like a kernel without them; the snapshot that
    /// follows is slower and as correct.
    fn listed(&mut self, pid: i32, found: &mut Vec<i32>) -> Result<(), NoChildrenFile> {
        let before = found.len();
        let Ok(threads) = numbers_in(&format!("/proc/{pid}/task")) else { return Ok(()) };
        for thread in threads {
            match self.buffer.whole(format_args!("/proc/{pid}/task/{thread}/children")) {
                Ok(bytes) => found.extend(parse_children(bytes)),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    found.truncate(before);
                    return Err(NoChildrenFile);
                }
                Err(_) => {}
            }
        }
        Ok(())
    }
}

struct NoChildrenFile;

/// Parses `12 13 470 `; nothing else is ever in it.
fn parse_children(bytes: &[u8]) -> impl Iterator<Item = i32> {
    bytes.split(u8::is_ascii_whitespace).filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

/// The parents of all processes at about one moment, sorted by parent.
struct Snapshot(Vec<(i32, i32)>);

impl Snapshot {
    fn take(buffer: &mut Buffer) -> Self {
        let parent_of = |pid| {
            let bytes = buffer.small(format_args!("/proc/{pid}/stat")).ok()?;
            Some((stat::parse(bytes)?.parent, pid))
        };
        let mut pairs: Vec<_> = pids().filter_map(parent_of).collect();
        pairs.sort_unstable();
        Self(pairs)
    }

    fn children(&self, parent: i32) -> impl Iterator<Item = i32> {
        let start = self.0.partition_point(|(of, _)| *of < parent);
        self.0[start..].iter().take_while(move |(of, _)| *of == parent).map(|(_, pid)| *pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::reap::wait_for;
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    fn walk_over(pairs: &[(i32, i32)], root: i32) -> Vec<i32> {
        let mut pairs = pairs.to_vec();
        pairs.sort_unstable();
        let snapshot = Snapshot(pairs);
        walk(root, |parent, found| found.extend(snapshot.children(parent)))
    }

    #[test]
    fn descendants_come_after_their_parents_once_each() {
        for (pairs, root, expected) in [
            (&[][..], 1, &[][..]),
            (&[(1, 2), (1, 3), (2, 4), (4, 5), (9, 10)], 1, &[2, 3, 4, 5]),
            (&[(1, 2), (1, 3), (2, 4), (4, 5), (9, 10)], 2, &[4, 5]),
            (&[(1, 2), (2, 3), (3, 2), (3, 1)], 1, &[2, 3]),
            (&[(1, 1)], 1, &[]),
        ] {
            assert_eq!(walk_over(pairs, root), expected, "{pairs:?} from {root}");
        }
    }

    #[test]
    fn a_list_of_descendants_is_bounded() {
        let many: Vec<(i32, i32)> = (2..20_000).map(|pid| (pid / 2, pid)).collect();
        assert_eq!(walk_over(&many, 1).len(), PROC_ENTRIES_MAX);
    }

    #[test]
    fn children_files_are_numbers_and_whatever_else_is_skipped() {
        for (text, expected) in [
            ("", &[][..]),
            ("12 13 470 ", &[12, 13, 470]),
            ("12\n13", &[12, 13]),
            ("x 7 99999999999 -", &[7]),
        ] {
            assert_eq!(parse_children(text.as_bytes()).collect::<Vec<_>>(), expected, "{text:?}");
        }
        assert_eq!(parse_children(b"\xff 7").collect::<Vec<_>>(), [7]);
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "sys/reap.rs is the one that waits")]
    fn both_ways_to_look_find_children_and_grandchildren() {
        let script = "sleep 600 & echo $!; wait";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().expect("a shell");
        let mut line = String::new();
        let output = shell.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("the shell says whom it started");
        let (me, child): (i32, i32) = (std::process::id() as i32, shell.id() as i32);
        let grandchild: i32 = line.trim().parse().expect("a number");

        let snapshot = Snapshot::take(&mut Buffer::new());
        let by_snapshot = walk(me, |parent, found| found.extend(snapshot.children(parent)));
        let (mine, all, of_child) = (children(me), descendants(me), children(child));
        for pid in [grandchild, child] {
            kill(Pid::from_raw(pid), Signal::SIGKILL).expect("kill");
        }
        wait_for(Pid::from_raw(child)).expect("reaped");

        assert!(mine.contains(&child) && !mine.contains(&grandchild), "{mine:?}");
        assert_eq!(of_child, [grandchild]);
        for list in [all, by_snapshot] {
            assert!(list.contains(&child) && list.contains(&grandchild), "{list:?}");
        }
    }

    #[test]
    fn a_process_that_does_not_exist_has_no_descendants() {
        assert!(children(i32::MAX).is_empty());
        assert!(descendants(-1).is_empty());
    }
}
