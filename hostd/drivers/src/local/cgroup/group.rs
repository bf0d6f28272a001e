//! The control groups of one sandbox: created, limited, frozen, emptied, removed.

use super::hierarchy::{Hierarchy, Version};
use crate::local::{
    files,
    limits::{CPU_PERIOD_US, CPUS_MIN, KERNEL_FILE_MAX_BYTES, KILL_ROUNDS_MAX},
};
use hostd_core::SandboxProcesses;
use nix::{
    libc,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use protocol::api::Limits;
use std::{
    io,
    path::{Path, PathBuf},
};

/// All devices are denied except these: null, zero, full, random, urandom, tty, ptmx, pts.
const DEVICES: [&str; 8] = [
    "c 1:3 rwm",
    "c 1:5 rwm",
    "c 1:7 rwm",
    "c 1:8 rwm",
    "c 1:9 rwm",
    "c 5:0 rwm",
    "c 5:2 rwm",
    "c 136:* rwm",
];

#[derive(Debug, Clone)]
pub struct Cgroup {
    pub(super) version: Version,
    pub(super) dirs: Vec<(Hierarchy, PathBuf)>,
    pub(super) other_dirs: Vec<PathBuf>,
}

impl Cgroup {
    /// Creates the directories and writes the limits. May be repeated.
    pub fn make(&self, limits: &Limits) -> io::Result<()> {
        for (hierarchy, dir) in &self.dirs {
            if self.version == Version::V2 {
                delegate(&hierarchy.mounted_at, dir)?;
            }
            make_group(dir)?;
        }
        match self.version {
            Version::V1 => self.limit_v1(limits),
            Version::V2 => self.limit_v2(limits),
        }
    }

    fn limit_v1(&self, limits: &Limits) -> io::Result<()> {
        let memory = (limits.memory_mb << 20).to_string();
        self.set("memory", "memory.limit_in_bytes", &memory)?;
        // Missing where the kernel does not account swap.
        optional(self.set("memory", "memory.memsw.limit_in_bytes", &memory))?;
        self.set("pids", "pids.max", &limits.pids.to_string())?;
        if self.dir("cpu").is_some() {
            self.set("cpu", "cpu.cfs_period_us", &CPU_PERIOD_US.to_string())?;
            self.set("cpu", "cpu.cfs_quota_us", &quota_us(limits).to_string())?;
        }
        if self.dir("devices").is_some() {
            self.set("devices", "devices.deny", "a")?;
            for rule in DEVICES {
                self.set("devices", "devices.allow", rule)?;
            }
        }
        Ok(())
    }

    fn limit_v2(&self, limits: &Limits) -> io::Result<()> {
        self.set("memory", "memory.max", &(limits.memory_mb << 20).to_string())?;
        optional(self.set("memory", "memory.swap.max", "0"))?;
        self.set("pids", "pids.max", &limits.pids.to_string())?;
        if self.dir("cpu").is_some() {
            self.set("cpu", "cpu.max", &format!("{} {CPU_PERIOD_US}", quota_us(limits)))?;
        }
        Ok(())
    }

    /// Files to write `0` to, to join the groups. On v1 it is `tasks`: `cgroup.procs` would wait for all
    /// CPUs, several milliseconds.
    pub fn join_files(&self) -> Vec<PathBuf> {
        let name = match self.version {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.procs",
        };
        self.dirs.iter().map(|(_, dir)| dir.join(name)).collect()
    }

    /// Directories with counters, and the path below `/sys/fs/cgroup` where the sandbox sees each.
    pub fn counter_mounts(&self) -> Vec<(PathBuf, PathBuf)> {
        let counts = |hierarchy: &Hierarchy| {
            hierarchy
                .controllers
                .iter()
                .any(|name| ["memory", "pids", "cpu", "cpuacct"].contains(&name.as_str()))
        };
        let root = Path::new("/sys/fs/cgroup");
        let visible = self.dirs.iter().filter(|(hierarchy, _)| counts(hierarchy));
        visible
            .map(|(hierarchy, dir)| match self.version {
                Version::V1 => (dir.clone(), root.join(hierarchy.controllers.join(","))),
                Version::V2 => (dir.clone(), root.to_owned()),
            })
            .collect()
    }

    pub fn exists(&self) -> bool {
        self.dirs.iter().any(|(_, dir)| dir.exists())
    }

    /// Whether a process is in this group, by its `/proc/<pid>/cgroup`.
    pub fn contains_process(&self, proc_cgroup: &str) -> bool {
        let Some(dir) = self.dir("pids").or_else(|| self.dir("memory")) else { return false };
        let mut tail = dir.components().rev();
        let (Some(id), Some(parent)) = (tail.next(), tail.next()) else { return false };
        let ours = Path::new(parent.as_os_str()).join(id);
        let controller = match self.version {
            Version::V1 => "pids",
            Version::V2 => "",
        };
        let mut lines = proc_cgroup.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
        lines.any(|line| {
            let [_, controllers, path] = line.as_slice() else { return false };
            controllers.split(',').any(|name| name == controller) && Path::new(path).ends_with(&ours)
        })
    }

    /// Pids of all processes in the group, as hostd sees them.
    pub fn pids(&self) -> Vec<i32> {
        let mut pids = Vec::new();
        for dir in self.all_dirs() {
            let text = files::read_text(&dir.join("cgroup.procs"), KERNEL_FILE_MAX_BYTES).unwrap_or_default();
            pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
        }
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Whether the group has processes, and whether hostd can see their pids.
    pub fn members(&self) -> SandboxProcesses {
        let pids = self.pids();
        let counted = || self.get("pids", "pids.current").is_ok_and(|count| count.trim() != "0");
        match pids.first() {
            Some(0) => SandboxProcesses::Hidden,
            Some(_) => SandboxProcesses::Listed,
            None if counted() => SandboxProcesses::Counted,
            None => SandboxProcesses::None,
        }
    }

    /// Kills all processes, also those forked meanwhile; returns whether none is left.
    pub fn kill_all(&self) -> bool {
        for _ in 0..KILL_ROUNDS_MAX {
            let pids = self.pids();
            if pids.is_empty() {
                return true;
            }
            for pid in pids.into_iter().filter(|pid| *pid > 0) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        false
    }

    pub fn set_frozen(&self, frozen: bool) -> io::Result<()> {
        match (self.version, frozen) {
            (Version::V1, true) => self.set("freezer", "freezer.state", "FROZEN"),
            (Version::V2, true) => self.set("memory", "cgroup.freeze", "1"),
            // A group that is created or removed in part: what does not exist is not frozen.
            (Version::V1, false) => optional(self.set("freezer", "freezer.state", "THAWED")),
            (Version::V2, false) => optional(self.set("memory", "cgroup.freeze", "0")),
        }
    }

    /// Whether every process is frozen.
    pub fn is_frozen(&self) -> bool {
        match self.version {
            Version::V1 => self.get("freezer", "freezer.state").is_ok_and(|state| state.trim() == "FROZEN"),
            Version::V2 => {
                self.get("memory", "cgroup.events").is_ok_and(|text| text.lines().any(|l| l == "frozen 1"))
            }
        }
    }

    /// Removes the directories; returns whether all are gone. A directory with a process in it stays.
    pub fn remove(&self) -> io::Result<bool> {
        let mut gone = true;
        for dir in self.all_dirs() {
            match std::fs::remove_dir(dir).map_err(|error| (error.raw_os_error(), error)) {
                Ok(()) | Err((Some(libc::ENOENT), _)) => {}
                Err((Some(libc::EBUSY), _)) => gone = false,
                Err((_, error)) => return Err(error),
            }
        }
        Ok(gone)
    }

    fn all_dirs(&self) -> impl Iterator<Item = &PathBuf> {
        self.dirs.iter().map(|(_, dir)| dir).chain(&self.other_dirs)
    }

    pub(super) fn dir(&self, controller: &str) -> Option<&Path> {
        let has = |hierarchy: &Hierarchy| hierarchy.controllers.iter().any(|name| name == controller);
        self.dirs.iter().find(|(hierarchy, _)| has(hierarchy)).map(|(_, dir)| dir.as_path())
    }

    pub(super) fn set(&self, controller: &str, file: &str, value: &str) -> io::Result<()> {
        let dir = self.dir(controller).ok_or(io::ErrorKind::NotFound)?;
        std::fs::OpenOptions::new()
            .write(true)
            .open(dir.join(file))
            .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()))
            .map_err(|error| io::Error::new(error.kind(), format!("{file}: {error}")))
    }

    pub(super) fn get(&self, controller: &str, file: &str) -> io::Result<String> {
        let dir = self.dir(controller).ok_or(io::ErrorKind::NotFound)?;
        files::read_text(&dir.join(file), KERNEL_FILE_MAX_BYTES)
    }
}

/// Creates a group and, the first time, its parent.
fn make_group(dir: &Path) -> io::Result<()> {
    match std::fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::fs::create_dir_all(dir),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Enables the controllers for a group: on v2 every group above must delegate them.
fn delegate(root: &Path, dir: &Path) -> io::Result<()> {
    let Some(parent) = dir.parent() else { return Ok(()) };
    make_group(parent)?;
    for above in [root, parent] {
        for controller in ["+memory", "+pids", "+cpu"] {
            let written = std::fs::write(above.join("cgroup.subtree_control"), controller);
            if controller != "+cpu" {
                written?;
            }
        }
    }
    Ok(())
}

pub(super) fn quota_us(limits: &Limits) -> u64 {
    (limits.cpus.max(CPUS_MIN) * CPU_PERIOD_US as f64).round() as u64
}

pub(super) fn optional(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
