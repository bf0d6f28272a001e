//! Removes the sandboxes of a hostd: they outlive it, so a test must destroy them when it ends.

use crate::launch::DIRECTORY_PREFIX;
use crate::sandbox::PATIENCE;
use crate::stale_directories;
use anyhow::{Context, Result};
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Instant;

const ROOT: &str = "/sys/fs/cgroup";

/// Process ids in control groups of the hostd with this data.
pub(super) fn processes(data: &Path) -> Result<Vec<i32>> {
    let mut pids = Vec::new();
    for group in groups(data)?.iter().filter(|group| group.join("cgroup.procs").exists()) {
        for line in std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().lines() {
            pids.extend(line.parse::<i32>());
        }
    }
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

/// Sandboxes that have a control group.
pub(super) fn sandboxes(data: &Path) -> Result<BTreeSet<String>> {
    let inner = groups(data)?.into_iter().filter(|group| !is_root(group));
    Ok(inner.filter_map(|group| Some(group.file_name()?.to_string_lossy().into_owned())).collect())
}

fn is_root(group: &Path) -> bool {
    group.file_name().is_some_and(|name| name.to_string_lossy().starts_with("slipway-"))
}

/// Every control group of that hostd, innermost first.
fn groups(data: &Path) -> Result<Vec<PathBuf>> {
    let instance = std::fs::read_to_string(data.join("instance")).context("the instance")?;
    let name = format!("slipway-{}", instance.trim());
    let mut roots = vec![PathBuf::from(ROOT).join(&name)];
    for controller in std::fs::read_dir(ROOT)?.flatten() {
        roots.push(controller.path().join(&name));
    }
    let mut groups = Vec::new();
    for root in roots.into_iter().filter(|root| root.is_dir()) {
        for child in std::fs::read_dir(&root)?.flatten().filter(|entry| entry.path().is_dir()) {
            groups.push(child.path());
        }
        groups.push(root);
    }
    Ok(groups)
}

/// Sandboxes of tests that were killed.
pub(super) fn sweep_once() {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| stale_directories::sweep(&std::env::temp_dir(), DIRECTORY_PREFIX, clear));
}

/// Kills everything and takes the groups away, as far as possible: a test must not leave anything.
pub(super) fn clear(data: &Path) {
    let until = Instant::now() + PATIENCE;
    while let Ok(groups) = groups(data)
        && !groups.is_empty()
        && Instant::now() < until
    {
        for group in &groups {
            let _ = std::fs::write(group.join("freezer.state"), "THAWED");
            let _ = std::fs::write(group.join("cgroup.freeze"), "0");
        }
        for pid in processes(data).unwrap_or_default() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        for group in &groups {
            let _ = std::fs::remove_dir(group);
        }
        std::thread::yield_now();
    }
    for mount in mounts_below(data) {
        let _ = umount2(&mount, MntFlags::MNT_DETACH);
    }
}

/// Mount points strictly below a directory, the last mounted first.
pub(super) fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = text.lines().rev().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    points.filter(|point| point != dir && point.starts_with(dir)).collect()
}
