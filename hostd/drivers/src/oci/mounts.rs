//! The mounts of a sandbox.

use super::{
    cgroup::Cgroup,
    images::{RUNTIMED_INSIDE, Rootfs},
    layout::SandboxDir,
    limits::{DEV_TMPFS_BYTES, SHM_PERCENT, SYS_TMPFS_BYTES, TERMINALS_MAX, TMP_PERCENT, VAR_TMP_PERCENT},
};
use oci_spec::{
    OciSpecError,
    runtime::{Mount, MountBuilder},
};
use std::path::{Path, PathBuf};

pub struct SandboxMounts<'a> {
    pub rootfs: &'a Rootfs,
    pub dir: &'a SandboxDir,
    pub workspace: &'a Path,
    pub runtimed: &'a Path,
    pub group: &'a Cgroup,
    pub memory_bytes: u64,
    pub idmapped: bool,
    /// The workspace is mounted with the ids of the sandbox already.
    pub stacked: bool,
}

impl SandboxMounts<'_> {
    pub fn mounts(&self) -> Result<Vec<Mount>, OciSpecError> {
        let mut mounts = vec![];
        for (from, to) in &self.rootfs.binds {
            mounts.push(bind(from, to, &["ro", "nosuid", "nodev"])?);
        }
        mounts.push(bind(self.runtimed, Path::new(RUNTIMED_INSIDE), &["ro", "nosuid", "nodev"])?);
        mounts.extend(kernel_mounts(self.memory_bytes)?);
        mounts.extend(volume_mounts(&self.rootfs.volumes, self.memory_bytes)?);
        for (from, to) in self.group.counter_mounts() {
            mounts.push(bind(&from, &to, &["ro", "nosuid", "nodev", "noexec"])?);
        }
        let (control, public) = (self.dir.control(), self.dir.public());
        mounts.push(self.bind_writable(&control, "/run/runtimed", &["rw", "nosuid", "nodev", "noexec"])?);
        mounts.push(self.bind_writable(&public, "/run/slipway", &["rw", "nosuid", "nodev", "noexec"])?);
        let home = ["rw", "nosuid", "nodev"];
        mounts.push(match self.stacked {
            true => bind(self.workspace, Path::new("/home/sandbox"), &home)?,
            false => self.bind_writable(self.workspace, "/home/sandbox", &home)?,
        });
        Ok(mounts)
    }

    /// Binds a writable directory of this sandbox. crun 1.8 drops the other options of an idmapped mount:
    /// there they come from the launcher's mount of the data directory.
    fn bind_writable(&self, from: &Path, to: &str, options: &[&str]) -> Result<Mount, OciSpecError> {
        let idmap: &[&str] = if self.idmapped { &["idmap"] } else { &[] };
        bind(from, Path::new(to), &[options, idmap].concat())
    }
}

/// Mounts without a source on the host.
fn kernel_mounts(memory_bytes: u64) -> Result<Vec<Mount>, OciSpecError> {
    let size = |percent: u64| format!("size={}", memory_bytes / 100 * percent);
    let bytes = |bytes: u64| format!("size={bytes}");
    let world = "mode=1777".to_owned();
    let root = "mode=755".to_owned();
    // Limited, as all sandboxes share the kernel's terminals.
    let terminals = format!("max={TERMINALS_MAX}");
    Ok(vec![
        new_mount("proc", "/proc", &["nosuid", "nodev", "noexec"], vec![])?,
        new_mount(
            "tmpfs",
            "/dev",
            &["nosuid", "noexec", "strictatime"],
            vec![root.clone(), bytes(DEV_TMPFS_BYTES)],
        )?,
        new_mount(
            "devpts",
            "/dev/pts",
            &["nosuid", "noexec", "newinstance"],
            vec!["ptmxmode=0666".into(), "mode=0620".into(), "gid=5".into(), terminals],
        )?,
        new_mount(
            "tmpfs",
            "/dev/shm",
            &["nosuid", "nodev", "noexec"],
            vec![world.clone(), size(SHM_PERCENT)],
        )?,
        // Executable: programs are unpacked and run there.
        new_mount("tmpfs", "/tmp", &["nosuid", "nodev"], vec![world.clone(), size(TMP_PERCENT)])?,
        new_mount("tmpfs", "/var/tmp", &["nosuid", "nodev"], vec![world, size(VAR_TMP_PERCENT)])?,
        // No sysfs: it describes the host. Only our own counters are mounted below.
        new_mount("tmpfs", "/sys", &["nosuid", "nodev", "noexec"], vec![root, bytes(SYS_TMPFS_BYTES)])?,
    ])
}

/// The volumes of the image: empty, in memory, and gone with the sandbox.
fn volume_mounts(volumes: &[String], memory_bytes: u64) -> Result<Vec<Mount>, OciSpecError> {
    let size = format!("size={}", memory_bytes / 100 * TMP_PERCENT);
    let options = || vec!["mode=1777".to_owned(), size.clone()];
    volumes.iter().map(|path| new_mount("tmpfs", path, &["nosuid", "nodev"], options())).collect()
}

fn new_mount(kind: &str, to: &str, options: &[&str], more: Vec<String>) -> Result<Mount, OciSpecError> {
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).chain(more).collect();
    MountBuilder::default().destination(to).typ(kind).source(kind).options(options).build()
}

fn bind(from: &Path, to: &Path, options: &[&str]) -> Result<Mount, OciSpecError> {
    let options: Vec<String> = ["bind", "private"].iter().chain(options).map(|o| (*o).to_owned()).collect();
    MountBuilder::default().destination(PathBuf::from(to)).typ("bind").source(from).options(options).build()
}
