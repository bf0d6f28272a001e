//! PID 1 of a sandbox, seen from the host. A pid in a file proves nothing: the process must be alive, in the
//! sandbox's control group, and the first of its PID namespace.

use super::{
    files,
    layout::SandboxDir,
    limits::KERNEL_FILE_MAX_BYTES,
    pidfd::{has_exited, pidfd_open},
};
use std::{io, os::fd::OwnedFd, path::PathBuf};

#[derive(Debug)]
pub struct Init {
    pub pid: i32,
    /// In clock ticks since the host's boot.
    pub start_time: u64,
    pub pidfd: OwnedFd,
}

impl Init {
    /// Finds the PID 1 of a sandbox, if it is alive. `in_cgroup` checks the text of `/proc/<pid>/cgroup`.
    pub fn find(dir: &SandboxDir, in_cgroup: impl FnOnce(&str) -> bool) -> io::Result<Option<Self>> {
        let text = match files::read_text(&dir.pid(), 64) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // Empty when the runtime died while it wrote the file.
        let Some(pid) = text.trim().parse::<i32>().ok().filter(|pid| *pid > 0) else { return Ok(None) };
        Self::check(pid, in_cgroup)
    }

    pub fn check(pid: i32, in_cgroup: impl FnOnce(&str) -> bool) -> io::Result<Option<Self>> {
        let pidfd = match pidfd_open(pid) {
            Ok(pidfd) => pidfd,
            Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => return Ok(None),
            Err(error) => return Err(error),
        };
        let read = |name: &str| files::read_text(&proc_of(pid).join(name), KERNEL_FILE_MAX_BYTES);
        // The files vanish with the process: it has exited.
        let (Ok(stat), Ok(status), Ok(cgroup)) = (read("stat"), read("status"), read("cgroup")) else {
            return Ok(None);
        };
        let Some(start_time) = start_time(&stat) else { return Ok(None) };
        // Checked last: a process that is alive now is the one that all reads above were about.
        let ours = is_pid_1(&status) && in_cgroup(&cgroup) && !has_exited(&pidfd);
        Ok(ours.then_some(Self { pid, start_time, pidfd }))
    }

    pub fn proc(&self) -> PathBuf {
        proc_of(self.pid)
    }
}

pub fn proc_of(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// Field 22; field 2 is in parentheses and may contain any character.
fn start_time(stat: &str) -> Option<u64> {
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

/// `NSpid: 4711 1`: one namespace below ours, and the first process in it.
fn is_pid_1(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let pids: Vec<&str> = line.unwrap_or("").split_whitespace().collect();
    matches!(pids.as_slice(), [_, "1"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_process_one_namespace_down_is_an_init() {
        for (line, expected) in [
            ("NSpid:\t4711\t1", true),
            ("NSpid:\t4711\t2", false),
            ("NSpid:\t1", false),
            ("NSpid:\t4711\t5\t1", false),
            ("", false),
        ] {
            assert_eq!(is_pid_1(&format!("Name:\tx\n{line}\n")), expected, "{line:?}");
        }
    }

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let fields: Vec<String> = (3..=52).map(|n| n.to_string()).collect();
        assert_eq!(start_time(&format!("7 (a) (b)) {}", fields.join(" "))), Some(22));
        assert_eq!(start_time("nonsense"), None);
    }
}
