//! Cleans up after an engine that was killed: processes, control groups and mounts. A test must leave none.

use super::docker;
use crate::sandbox::PATIENCE;
use anyhow::Result;
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

const GROUPS: &str = "/sys/fs/cgroup";
const PAUSE: Duration = Duration::from_millis(10);
/// To end in order.
const GRACE: Duration = Duration::from_secs(20);

/// Between two looks at something that says nothing by itself.
#[expect(clippy::disallowed_methods, reason = "no event reports when a foreign process is ready or gone")]
pub fn pause() {
    std::thread::sleep(PAUSE);
}

pub fn end(daemon: &mut Child, dir: &Path) {
    let pid = Pid::from_raw(i32::try_from(daemon.id()).unwrap_or(0));
    if matches!(daemon.try_wait(), Ok(None)) {
        let _ = kill(pid, Signal::SIGTERM);
    }
    let started = Instant::now();
    while matches!(daemon.try_wait(), Ok(None)) && started.elapsed() < GRACE {
        pause();
    }
    let _ = daemon.kill();
    let _ = daemon.wait();
    kill_all(dir);
}

/// Mounts and control groups; the files go with the directory.
pub fn clear(dir: &Path) {
    for group in groups(dir) {
        let _ = std::fs::remove_dir(group);
    }
    // Innermost first, and those that hide others.
    for mount in mounts(dir).into_iter().rev() {
        let _ = umount2(&mount, MntFlags::MNT_DETACH);
    }
}

/// Whether none of its threads runs.
pub fn is_stopped(pid: Pid) -> Result<bool> {
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = std::fs::read_to_string(thread?.path().join("stat")).unwrap_or_default();
        // The state comes after the name, which is in parentheses.
        if stat.rsplit(')').next().is_some_and(|rest| !rest.starts_with(" T")) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Kills containers by their control group, and processes with the directory on their command line: shims and
/// monitors.
pub fn kill_all(dir: &Path) {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        let found: Vec<i32> = in_groups(dir).into_iter().chain(named(dir)).collect();
        if found.is_empty() {
            return;
        }
        for pid in found {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        pause();
    }
}

/// Ends programs of this name that belong to the directory.
pub fn kill_named(dir: &Path, program: &str) {
    let is_it = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == program)
    };
    let started = Instant::now();
    while started.elapsed() < GRACE {
        let found: Vec<i32> = named(dir).into_iter().filter(is_it).collect();
        if found.is_empty() {
            return;
        }
        for pid in found {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        pause();
    }
}

fn in_groups(dir: &Path) -> Vec<i32> {
    let mut pids = Vec::new();
    for group in groups(dir) {
        let _ = std::fs::write(group.join("freezer.state"), "THAWED");
        let listed = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        pids.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()));
    }
    pids
}

/// Every control group of its containers, innermost first.
fn groups(dir: &Path) -> Vec<PathBuf> {
    let Ok(name) = docker::group(dir) else { return Vec::new() };
    let mut found = Vec::new();
    for controller in entries(Path::new(GROUPS)) {
        let root = controller.join(&name);
        found.extend(entries(&root).into_iter().filter(|child| child.is_dir()));
        found.extend(root.is_dir().then_some(root));
        for container in podmans(dir) {
            let group = controller.join("libpod_parent").join(format!("libpod-{container}"));
            found.extend(group.is_dir().then_some(group));
        }
    }
    found
}

/// Containers that Podman has, or had when it was killed.
fn podmans(dir: &Path) -> Vec<String> {
    let known = entries(&dir.join("run/overlay-containers"));
    known.iter().filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
}

pub fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn named(dir: &Path) -> Vec<i32> {
    let name = dir.as_os_str().as_encoded_bytes();
    let numbers = entries(Path::new("/proc"));
    let pids = numbers.iter().filter_map(|path| path.file_name()?.to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let ours = u32::try_from(*pid).is_ok_and(|pid| pid == std::process::id());
        !ours && memchr::memmem::find(&line, name).is_some()
    })
    .collect()
}

/// In the order they were made.
fn mounts(dir: &Path) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = table.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    places.filter(|place| place.starts_with(dir)).collect()
}
