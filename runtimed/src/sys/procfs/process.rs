//! Names of processes for the user, and how many there are.
//!
//! Must not: let a command line affect the terminal or page it is shown on.

use super::buffer::{Buffer, pids};
use super::process_tree::descendants;
use super::stat;
use crate::limits::COMMAND_SHOWN_MAX_BYTES;
use protocol::Process;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// All processes, zombies included.
    pub processes: u32,
    pub zombies: u32,
}

/// The process, or `None` when it is gone.
pub fn process(pid: i32) -> Option<Process> {
    let mut buffer = Buffer::new();
    let command = buffer.small(format_args!("/proc/{pid}/cmdline")).ok().and_then(command_line);
    if let Some(command) = command {
        return Some(Process { pid, command });
    }
    // Kernel threads, zombies and processes that cleared it have no command line, but a name.
    let stat = stat::parse(buffer.small(format_args!("/proc/{pid}/stat")).ok()?)?;
    Some(Process { pid, command: in_brackets(stat.name) })
}

/// Counts the processes of this sandbox: all of the PID namespace, or where that is not our own, ourselves
/// and our descendants.
pub fn count() -> Counts {
    let own = std::process::id() as i32;
    if own == 1 { count_all(pids()) } else { count_all(descendants(own).into_iter().chain([own])) }
}

fn count_all(pids: impl Iterator<Item = i32>) -> Counts {
    let mut buffer = Buffer::new();
    let mut counts = Counts::default();
    for pid in pids {
        let stat = buffer.small(format_args!("/proc/{pid}/stat")).ok().and_then(stat::parse);
        counts.processes += u32::from(stat.is_some());
        counts.zombies += u32::from(stat.is_some_and(|stat| stat.is_zombie()));
    }
    counts
}

/// Resident memory of this process; 0 where the kernel does not report it.
pub fn rss_bytes() -> u64 {
    let mut buffer = Buffer::new();
    // `status` rather than `statm`: it counts in KiB, so the page size need not be known.
    buffer.small(format_args!("/proc/self/status")).ok().and_then(parse_rss).unwrap_or(0)
}

fn parse_rss(status: &[u8]) -> Option<u64> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"VmRSS:"))?;
    let kib: u64 = std::str::from_utf8(line).ok()?.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

/// Arguments are separated, and mostly ended, by NUL.
fn command_line(cmdline: &[u8]) -> Option<String> {
    let shown = printable(cmdline, COMMAND_SHOWN_MAX_BYTES);
    (!shown.is_empty()).then_some(shown)
}

fn in_brackets(name: &[u8]) -> String {
    format!("[{}]", printable(name, COMMAND_SHOWN_MAX_BYTES - 2))
}

/// Text that is safe to print, at most `max_bytes` long.
fn printable(bytes: &[u8], max_bytes: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let printable: String = text.chars().map(|c| if is_harmless(c) { c } else { ' ' }).collect();
    cut(printable.trim(), max_bytes)
}

/// Neither a control character nor a bidirectional formatting character.
fn is_harmless(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}');
    !c.is_control() && !turns
}

fn cut(text: &str, max_bytes: usize) -> String {
    const MARK: char = '…';
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(max_bytes.saturating_sub(MARK.len_utf8()));
    format!("{}{MARK}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::reap::wait_for;
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    use nix::unistd::Pid;
    use proptest::prelude::proptest;
    use std::process::Command;

    #[test]
    fn command_lines_are_joined_cleaned_and_cut() {
        let long = "x".repeat(COMMAND_SHOWN_MAX_BYTES + 1);
        let just_fits = "y".repeat(COMMAND_SHOWN_MAX_BYTES);
        let wide = "é".repeat(COMMAND_SHOWN_MAX_BYTES);
        for (cmdline, expected) in [
            (&b""[..], None),
            (b"\0\0\0", None),
            (b" \0", None),
            (b"node\0server.js\0", Some("node server.js".to_owned())),
            (b"nginx: master process\0\0\0\0", Some("nginx: master process".to_owned())),
            (b"sh\0-c\0a\nb\0", Some("sh -c a b".to_owned())),
            (b"x\x1b[31m\x07y\x7f", Some("x [31m y".to_owned())),
            ("a\u{202e}b".as_bytes(), Some("a b".to_owned())),
            (b"a\xff\xfeb", Some("a\u{fffd}\u{fffd}b".to_owned())),
            (just_fits.as_bytes(), Some(just_fits.clone())),
            (long.as_bytes(), Some(format!("{}…", "x".repeat(197)))),
            (wide.as_bytes(), Some(format!("{}…", "é".repeat(98)))),
        ] {
            assert_eq!(command_line(cmdline), expected, "{:?}", String::from_utf8_lossy(cmdline));
        }
    }

    proptest! {
        #[test]
        fn whatever_a_process_calls_itself_is_short_and_printable(bytes: Vec<u8>) {
            for text in [printable(&bytes, COMMAND_SHOWN_MAX_BYTES), in_brackets(&bytes)] {
                assert!(text.len() <= COMMAND_SHOWN_MAX_BYTES);
                assert!(!text.contains(char::is_control));
            }
            let _ = parse_rss(&bytes);
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "waits until there is a zombie, and leaves it there")]
    #[expect(clippy::zombie_processes, reason = "sys/reap.rs is the one that waits")]
    fn a_process_without_a_command_line_has_its_name_in_brackets() {
        let zombie = Command::new("true").spawn().expect("true");
        let pid = zombie.id() as i32;
        let only_look = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(Pid::from_raw(pid)), only_look).expect("it ends");
        let (seen, counts) = (process(pid), count());
        wait_for(Pid::from_raw(pid)).expect("reaped");
        assert_eq!(seen, Some(Process { pid, command: "[true]".to_owned() }));
        assert!(counts.zombies >= 1 && counts.processes > counts.zombies, "{counts:?}");
        assert_eq!(process(pid), None);
    }

    #[test]
    fn this_process_is_found_by_its_command_line() {
        let me = process(std::process::id() as i32).expect("alive");
        let program = std::env::args().next().expect("tests have a name");
        assert!(me.command.starts_with(&program) || me.command.ends_with('…'), "{me:?}");
    }

    #[test]
    fn resident_memory_is_read_in_bytes() {
        for (status, expected) in [
            ("Name:\tx\nVmRSS:\t    4096 kB\nRssAnon:\t 1 kB\n", Some(4_194_304)),
            ("Name:\tVmRSS: 5 kB\n", None),
            ("VmRSS:\t kB\n", None),
            ("VmRSS:\t18446744073709551615 kB\n", None),
            ("", None),
        ] {
            assert_eq!(parse_rss(status.as_bytes()), expected, "{status:?}");
        }
        assert!(rss_bytes() > 100 << 10);
    }
}
