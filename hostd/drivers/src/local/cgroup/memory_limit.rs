//! The control groups above all sandboxes, as far as they limit memory.

use super::{
    counters::{parse, reclaimable},
    hierarchy::{Hierarchies, Version},
};
use crate::local::{files, limits::KERNEL_FILE_MAX_BYTES};
use hostd_core::MemoryStalls;
use std::{
    io,
    path::{Path, PathBuf},
};

/// A limit beyond this is none: v1 has a number for it.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// A control group that may have a memory limit.
#[derive(Debug, Clone)]
pub struct LimitedGroup {
    version: Version,
    dir: PathBuf,
}

/// The memory of a group with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupMemory {
    pub limit_bytes: u64,
    pub available_bytes: u64,
}

impl Hierarchies {
    /// The group of all sandboxes, and those above it that hostd can see: the last is the top of the hierarchy, which
    /// has the limit of the container that hostd may run in.
    pub fn above_sandboxes(&self) -> Vec<LimitedGroup> {
        let Some((version, mounted_at)) = self.memory_at() else { return Vec::new() };
        [mounted_at.join(self.parent_name()), mounted_at.to_owned()]
            .map(|dir| LimitedGroup { version, dir })
            .into()
    }
}

impl LimitedGroup {
    /// The memory of the group; `None` where it has no limit, or is not there.
    pub fn memory(&self) -> Option<GroupMemory> {
        let (limit, usage) = match self.version {
            Version::V1 => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            Version::V2 => ("memory.max", "memory.current"),
        };
        let limit_bytes = parse(&self.get(limit)?);
        if limit_bytes == 0 || limit_bytes >= UNLIMITED_BYTES {
            return None;
        }
        let used = parse(&self.get(usage)?);
        let freed = reclaimable(&self.get("memory.stat").unwrap_or_default(), self.version);
        let available_bytes = limit_bytes.saturating_sub(used.saturating_sub(freed));
        Some(GroupMemory { limit_bytes, available_bytes })
    }

    /// Stalls within the group; only v2 measures them.
    pub fn stalls(&self) -> Option<MemoryStalls> {
        match self.version {
            Version::V1 => None,
            Version::V2 => MemoryStalls::parse(&self.get("memory.pressure")?),
        }
    }

    /// Limits the group, which is made if it is not there, or takes its limit back.
    pub fn limit(&self, bytes: Option<u64>) -> io::Result<()> {
        std::fs::create_dir_all(&self.dir)?;
        let (file, unlimited) = match self.version {
            Version::V1 => {
                // Without this a limit of the parent does not hold its children; kernels since 5.11 always have it.
                let hierarchical = self.get("memory.use_hierarchy").is_none_or(|text| text.trim() == "1");
                if !hierarchical {
                    write(&self.dir.join("memory.use_hierarchy"), "1")?;
                }
                ("memory.limit_in_bytes", "-1")
            }
            Version::V2 => {
                // Ignored where it is set already, or not allowed: then the write below fails.
                let above = self.dir.parent().unwrap_or(Path::new("/")).join("cgroup.subtree_control");
                let _ = write(&above, "+memory");
                ("memory.max", "max")
            }
        };
        write(&self.dir.join(file), &bytes.map_or(unlimited.to_owned(), |bytes| bytes.to_string()))
    }

    fn get(&self, file: &str) -> Option<String> {
        files::read_text(&self.dir.join(file), KERNEL_FILE_MAX_BYTES).ok()
    }
}

fn write(path: &Path, value: &str) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
    io::Write::write_all(&mut file, value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(version: Version, files: &[(&str, &str)]) -> (tempfile::TempDir, LimitedGroup) {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).expect("written");
        }
        let group = LimitedGroup { version, dir: dir.path().to_owned() };
        (dir, group)
    }

    #[test]
    fn what_is_available_is_the_limit_without_what_cannot_be_freed() {
        let v1 = [
            ("memory.limit_in_bytes", "1000\n"),
            ("memory.usage_in_bytes", "900\n"),
            ("memory.stat", "inactive_file 1\ntotal_inactive_file 200\ntotal_active_file 100\n"),
        ];
        let v2 = [
            ("memory.max", "1000\n"),
            ("memory.current", "900\n"),
            ("memory.stat", "anon 600\ninactive_file 200\nactive_file 100\n"),
        ];
        for (version, files) in [(Version::V1, v1), (Version::V2, v2)] {
            let (_dir, group) = group(version, &files);
            let expected = GroupMemory { limit_bytes: 1000, available_bytes: 350 };
            assert_eq!(group.memory(), Some(expected), "{version:?}");
        }
    }

    #[test]
    fn a_group_without_a_limit_limits_nothing() {
        let table: [(Version, &[(&str, &str)]); 4] = [
            (
                Version::V1,
                &[("memory.limit_in_bytes", "9223372036854771712\n"), ("memory.usage_in_bytes", "1")],
            ),
            (Version::V2, &[("memory.max", "max\n"), ("memory.current", "1")]),
            (Version::V2, &[]),
            (Version::V1, &[]),
        ];
        for (version, files) in table {
            let (_dir, group) = group(version, files);
            assert_eq!(group.memory(), None, "{version:?} {files:?}");
        }
    }
}
