//! Finds the directories of our control group. Done once at boot, then passed to helper processes.
//!
//! ```text
//! /proc/self/cgroup      which group we are in, for each hierarchy:     4:memory:/docker/ab12
//! /proc/self/mountinfo   where that hierarchy is mounted, and how much: … /docker /sys/fs/cgroup/memory …
//! together               the directory:                                 /sys/fs/cgroup/memory/ab12
//! ```
//!
//! Must not: take a directory for ours that may belong to another group. When in doubt there is none.

use crate::sys::procfs::Buffer;
use protocol::CgroupVersion;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// A directory for each kind of counter; absent where the sandbox cannot see one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    pub memory: Option<ControllerDir>,
    pub pids: Option<ControllerDir>,
    pub cpu: Option<ControllerDir>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControllerDir {
    pub hierarchy: Hierarchy,
    pub directory: PathBuf,
}

/// The naming scheme of the files in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hierarchy {
    V1,
    V2,
}

impl Location {
    /// The version. Where both are in use the controllers are v1's, so v1 is reported.
    pub fn version(&self) -> CgroupVersion {
        let mut places = [&self.memory, &self.pids, &self.cpu].into_iter().flatten().peekable();
        match (places.peek().is_some(), places.any(|dir| dir.hierarchy == Hierarchy::V1)) {
            (false, _) => CgroupVersion::None,
            (true, true) => CgroupVersion::V1,
            (true, false) => CgroupVersion::V2,
        }
    }
}

pub fn locate() -> Location {
    let mut buffer = Buffer::new();
    let mut text = |name: &str| {
        let bytes = buffer.whole(format_args!("/proc/self/{name}")).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    };
    let (groups, mounts) = (text("cgroup"), text("mountinfo"));
    locate_in(&groups, &mounts)
}

/// The same from the text of the two files. Directories are looked up on the file system.
pub fn locate_in(proc_self_cgroup: &str, mountinfo: &str) -> Location {
    let groups: Vec<Group<'_>> = proc_self_cgroup.lines().filter_map(Group::parse).collect();
    let mounts: Vec<Mount<'_>> = mountinfo.lines().filter_map(Mount::parse).collect();
    let dir = |controller, v2_file| {
        find_v1(&groups, &mounts, controller).or_else(|| find_v2(&groups, &mounts, v2_file))
    };
    Location {
        memory: dir("memory", "memory.current"),
        pids: dir("pids", "pids.current"),
        cpu: dir("cpuacct", "cpu.stat"),
    }
}

fn find_v1(groups: &[Group<'_>], mounts: &[Mount<'_>], controller: &str) -> Option<ControllerDir> {
    let group = groups.iter().find(|group| has_word(group.controllers, controller))?;
    let mounts = mounts.iter().filter(|mount| mount.kind == "cgroup" && has_word(mount.options, controller));
    let directory = mounts.filter_map(|mount| mount.directory_of(group.path)).find(|path| path.is_dir())?;
    Some(ControllerDir { hierarchy: Hierarchy::V1, directory })
}

/// On a hybrid host the v2 hierarchy exists without controllers, so the file itself is looked up.
fn find_v2(groups: &[Group<'_>], mounts: &[Mount<'_>], file: &str) -> Option<ControllerDir> {
    let group = groups.iter().find(|group| group.is_v2)?;
    let mounts = mounts.iter().filter(|mount| mount.kind == "cgroup2");
    let mut directories = mounts.filter_map(|mount| mount.directory_of(group.path));
    let directory = directories.find(|path| path.join(file).exists())?;
    Some(ControllerDir { hierarchy: Hierarchy::V2, directory })
}

fn has_word(list: &str, word: &str) -> bool {
    list.split(',').any(|entry| entry == word)
}

/// `4:cpu,cpuacct:/docker/ab12`, and for v2 `0::/docker/ab12`. A path may contain colons.
struct Group<'a> {
    is_v2: bool,
    controllers: &'a str,
    path: &'a str,
}

impl<'a> Group<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (id, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        Some(Self { is_v2: id == "0" && controllers.is_empty(), controllers, path })
    }
}

/// `35 31 0:32 /docker/ab12 /sys/fs/cgroup/memory ro,nosuid master:9 - cgroup cgroup rw,memory`
struct Mount<'a> {
    /// The mounted part of the hierarchy: `/`, or a subtree bound into the sandbox.
    root: PathBuf,
    point: PathBuf,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        // Any number of optional fields comes before the separator.
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        Some(Self {
            root: unescape(before.next()?).into(),
            point: unescape(before.next()?).into(),
            kind: after.next()?,
            options: after.nth(1)?,
        })
    }

    /// The directory of a group below this mount. `None` for a group outside of it, or outside of our cgroup
    /// namespace (`/../x`).
    fn directory_of(&self, group: &str) -> Option<PathBuf> {
        let below = Path::new(group).strip_prefix(&self.root).ok()?;
        let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        plain.then(|| self.point.components().chain(below.components()).collect())
    }
}

/// Undoes the kernel's octal escapes, such as `\040` for a blank.
fn unescape(field: &str) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = match rest {
            [b'\\', digits @ ..] => digits.get(..3).and_then(octal),
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &rest[4..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests;
