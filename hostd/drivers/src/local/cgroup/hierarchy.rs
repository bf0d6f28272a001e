//! The cgroup hierarchies of this host and where they are mounted.

use super::Cgroup;
use protocol::api::SandboxId;
use std::{
    io,
    path::{Path, PathBuf},
};

/// v1 controllers that a sandbox is put under. Other hierarchies of the host are left alone.
const WANTED: [&str; 6] = ["memory", "pids", "cpu", "cpuacct", "freezer", "devices"];
/// Without these no sandbox can run.
const NEEDED: [&str; 3] = ["memory", "pids", "freezer"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// One mounted hierarchy. Several v1 controllers may share one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    pub controllers: Vec<String>,
    pub mounted_at: PathBuf,
}

#[derive(Debug, Clone)]
pub struct Hierarchies {
    version: Version,
    used: Vec<Hierarchy>,
    /// Other hierarchies besides those of v1: runc creates groups there too.
    other_dirs: Vec<PathBuf>,
    /// A v2 hierarchy besides those of v1: some runtimes refuse to run when they see one.
    unified: Option<PathBuf>,
    parent: String,
}

impl Hierarchies {
    pub fn discover(instance: &str) -> io::Result<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
        Self::from_mountinfo(&mounts, instance, |path| std::fs::read_to_string(path).unwrap_or_default())
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::Unsupported,
                    "no control groups with memory, pids and freezer are mounted",
                )
            })
    }

    fn from_mountinfo(text: &str, instance: &str, read: impl Fn(&Path) -> String) -> Option<Self> {
        let mut used: Vec<Hierarchy> = Vec::new();
        let mut other_dirs = Vec::new();
        let mut unified = None;
        for (kind, at, options) in text.lines().filter_map(parse_mount) {
            if kind == "cgroup2" {
                unified.get_or_insert(at);
                continue;
            }
            let names = options.split(',').filter(|name| WANTED.contains(name));
            let controllers: Vec<String> = names.map(str::to_owned).collect();
            if controllers.is_empty() {
                other_dirs.push(at);
            } else if !used.iter().any(|known| known.controllers == controllers) {
                used.push(Hierarchy { controllers, mounted_at: at });
            }
        }
        let parent = format!("slipway-{instance}");
        let has = |name: &&str| used.iter().any(|h| h.controllers.iter().any(|c| c == *name));
        if NEEDED.iter().all(has) {
            other_dirs.extend(unified.clone());
            return Some(Self { version: Version::V1, used, other_dirs, unified, parent });
        }
        let root = unified?;
        let listed = read(&root.join("cgroup.controllers"));
        let controllers: Vec<String> = listed.split_whitespace().map(str::to_owned).collect();
        let enough = ["memory", "pids"].iter().all(|name| controllers.iter().any(|c| c == name));
        let used = vec![Hierarchy { controllers, mounted_at: root }];
        enough.then_some(Self { version: Version::V2, used, other_dirs: Vec::new(), unified: None, parent })
    }

    /// The mount that runtimes must not see.
    pub fn to_hide(&self) -> Option<&Path> {
        self.unified.as_deref()
    }

    /// The name of the group of all sandboxes.
    pub(super) fn parent_name(&self) -> &str {
        &self.parent
    }

    /// Where the memory controller is mounted.
    pub(super) fn memory_at(&self) -> Option<(Version, &Path)> {
        let memory = self.used.iter().find(|h| h.controllers.iter().any(|name| name == "memory"))?;
        Some((self.version, &memory.mounted_at))
    }

    /// The ids of sandboxes that have groups, with or without processes.
    pub fn sandboxes(&self) -> Vec<SandboxId> {
        let tops = self.used.iter().map(|hierarchy| &hierarchy.mounted_at).chain(&self.other_dirs);
        let entries = tops.filter_map(|at| std::fs::read_dir(at.join(&self.parent)).ok()).flatten().flatten();
        let mut ids: Vec<SandboxId> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The value of `linux.cgroupsPath`.
    pub fn path_of(&self, sandbox: &SandboxId) -> String {
        format!("/{}/{sandbox}", self.parent)
    }

    pub fn for_sandbox(&self, sandbox: &SandboxId) -> Cgroup {
        let below = |at: &Path| at.join(&self.parent).join(sandbox.as_str());
        let dirs = self.used.iter().map(|h| (h.clone(), below(&h.mounted_at))).collect();
        let other_dirs = self.other_dirs.iter().map(|at| below(at)).collect();
        Cgroup { version: self.version, dirs, other_dirs }
    }
}

impl Hierarchies {
    /// The groups that a process is in, by its `/proc/<pid>/cgroup`: those of a container, which the engine
    /// created.
    pub fn of_process(&self, proc_cgroup: &str) -> Cgroup {
        let path_of = |hierarchy: &Hierarchy| {
            let named = |controllers: &str| match self.version {
                Version::V1 => {
                    controllers.split(',').any(|name| hierarchy.controllers.iter().any(|c| c == name))
                }
                Version::V2 => controllers.is_empty(),
            };
            let mut lines = proc_cgroup.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
            lines.find_map(|line| {
                let [_, controllers, path] = line.as_slice() else { return None };
                named(controllers).then(|| (*path).to_owned())
            })
        };
        let place = |hierarchy: &Hierarchy| {
            let below = path_of(hierarchy)?;
            // Outside the mounted hierarchy: not reachable by a path.
            let plain = !below.split('/').any(|part| part == "..");
            plain.then(|| (hierarchy.clone(), hierarchy.mounted_at.join(below.trim_start_matches('/'))))
        };
        Cgroup {
            version: self.version,
            dirs: self.used.iter().filter_map(place).collect(),
            other_dirs: vec![],
        }
    }
}

/// Parses `35 31 0:32 / /sys/fs/cgroup/memory rw master:9 - cgroup cgroup rw,memory` into type, mount point
/// and options.
fn parse_mount(line: &str) -> Option<(&str, PathBuf, &str)> {
    let (before, after) = line.split_once(" - ")?;
    let at = before.split(' ').nth(4)?;
    let mut after = after.split(' ');
    let kind = after.next().filter(|kind| kind.starts_with("cgroup"))?;
    // The kernel escapes blanks as \040; no hierarchy is mounted at such a path.
    (!at.contains('\\')).then(|| (kind, PathBuf::from(at), after.nth(1).unwrap_or("")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(mountinfo: &str) -> Option<(Version, Vec<String>, Option<PathBuf>)> {
        let read = |_: &Path| "cpu memory pids".to_owned();
        let found = Hierarchies::from_mountinfo(mountinfo, "x", read)?;
        let used = found.used.iter().map(|h| h.controllers.join("+")).collect();
        Some((found.version, used, found.unified))
    }

    #[test]
    fn the_groups_of_a_process_are_found_in_every_hierarchy() {
        let v1 = "1 0 0:1 / /c/memory rw - cgroup c rw,memory\n2 0 0:2 / /c/pids rw - cgroup c rw,pids\n\
                  4 0 0:4 / /c/freezer rw - cgroup c rw,freezer\n";
        let found = Hierarchies::from_mountinfo(v1, "x", |_| String::new()).expect("enough");
        let group = found.of_process("9:pids:/docker/abc\n8:memory:/docker/abc\n7:freezer:/../abc\n");
        let dirs: Vec<PathBuf> = group.dirs.into_iter().map(|(_, place)| place).collect();
        assert_eq!(dirs, [PathBuf::from("/c/memory/docker/abc"), "/c/pids/docker/abc".into()]);
        let v2 = "6 0 0:6 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let found = Hierarchies::from_mountinfo(v2, "x", |_| "memory pids".to_owned()).expect("enough");
        let group = found.of_process("0::/system.slice/docker-abc.scope\n");
        assert_eq!(group.dirs[0].1, PathBuf::from("/sys/fs/cgroup/system.slice/docker-abc.scope"));
    }

    #[test]
    fn v1_v2_and_hybrid_hosts_are_supported() {
        let v1 = "1 0 0:1 / /c/memory rw - cgroup cgroup rw,memory\n2 0 0:2 / /c/pids rw - cgroup c rw,pids\n\
                  3 0 0:3 / /c/cpu,cpuacct rw shared:9 - cgroup c rw,cpu,cpuacct\n\
                  4 0 0:4 / /c/freezer rw - cgroup c rw,freezer\n5 0 0:5 / /c/systemd rw - cgroup c rw,name=systemd\n";
        let used: Vec<String> = ["memory", "pids", "cpu+cpuacct", "freezer"].map(str::to_owned).into();
        assert_eq!(shape(v1), Some((Version::V1, used.clone(), None)));
        let hybrid = format!("{v1}6 0 0:6 / /c/unified rw - cgroup2 cgroup2 rw\n");
        assert_eq!(shape(&hybrid), Some((Version::V1, used, Some("/c/unified".into()))));
        let v2 = "6 0 0:6 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(shape(v2), Some((Version::V2, vec!["cpu+memory+pids".into()], None)));
        assert_eq!(shape("1 0 0:1 / /proc rw - proc proc rw\n"), None);
    }
}
