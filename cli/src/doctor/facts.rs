//! Gathers facts about this machine. Judges nothing.

use super::engine::{self, Engine};
use crate::start_hostd;
use nix::sys::{
    resource::{Resource, getrlimit},
    statvfs::statvfs,
    utsname::uname,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub root: bool,
    pub kernel: String,
    pub cgroups: Cgroups,
    /// Installed OCI runtimes.
    pub runtimes: Vec<Runtime>,
    /// Value of `SLIPWAY_DRIVER`.
    pub driver: Option<String>,
    pub engine_socket: PathBuf,
    pub engine: Engine,
    pub max_user_namespaces: Option<u64>,
    pub inotify_instances: Option<u64>,
    pub inotify_watches: Option<u64>,
    pub open_files_hard: Option<u64>,
    pub data_dir: PathBuf,
    pub data_free_bytes: Option<u64>,
    pub hostd: Option<PathBuf>,
    pub runtimed: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    pub name: &'static str,
    pub path: PathBuf,
    /// First line of `--version`.
    pub version: String,
}

/// Control groups with their usable controllers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cgroups {
    #[default]
    None,
    V1(Vec<String>),
    /// Controllers on v1, with an empty v2 hierarchy.
    Hybrid(Vec<String>),
    V2(Vec<String>),
}

impl Facts {
    pub fn gather(data_dir: &Path) -> Self {
        let hostd = start_hostd::find_program("hostd");
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let engine_socket = engine::socket(variable("SLIPWAY_DOCKER_SOCKET").as_deref());
        Self {
            root: nix::unistd::geteuid().is_root(),
            kernel: uname().map(|name| name.release().to_string_lossy().into_owned()).unwrap_or_default(),
            cgroups: cgroups(Path::new("/sys/fs/cgroup")),
            runtimes: ["crun", "runc", "youki"].into_iter().filter_map(runtime).collect(),
            driver: variable("SLIPWAY_DRIVER"),
            engine: engine::probe(&engine_socket),
            engine_socket,
            max_user_namespaces: number("/proc/sys/user/max_user_namespaces"),
            inotify_instances: number("/proc/sys/fs/inotify/max_user_instances"),
            inotify_watches: number("/proc/sys/fs/inotify/max_user_watches"),
            open_files_hard: getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(_, hard)| hard),
            data_dir: data_dir.to_owned(),
            data_free_bytes: free_bytes(data_dir),
            runtimed: runtimed(hostd.as_deref()),
            hostd,
        }
    }
}

/// Finds runtimed as hostd does: in SLIPWAY_RUNTIMED, else beside hostd.
fn runtimed(hostd: Option<&Path>) -> Option<PathBuf> {
    let told = std::env::var_os("SLIPWAY_RUNTIMED").map(PathBuf::from);
    let beside = || Some(hostd?.parent()?.join("runtimed"));
    told.or_else(beside).filter(|path| path.is_file())
}

fn number(file: &str) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn cgroups(mount: &Path) -> Cgroups {
    if let Ok(controllers) = fs::read_to_string(mount.join("cgroup.controllers")) {
        return Cgroups::V2(controllers.split_whitespace().map(ToOwned::to_owned).collect());
    }
    // Controllers that share a directory have a link each.
    let used = ["memory", "pids", "cpu", "freezer"]
        .into_iter()
        .filter(|name| mount.join(name).join("cgroup.procs").exists());
    let controllers: Vec<String> = used.map(ToOwned::to_owned).collect();
    match (controllers.is_empty(), mount.join("unified/cgroup.procs").exists()) {
        (true, _) => Cgroups::None,
        (false, true) => Cgroups::Hybrid(controllers),
        (false, false) => Cgroups::V1(controllers),
    }
}

fn runtime(name: &'static str) -> Option<Runtime> {
    let path = start_hostd::find_program(name)?;
    let said = Command::new(&path).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
    let version = text.lines().next().map(crate::text::plain).unwrap_or_default();
    Some(Runtime { name, path, version })
}

/// Returns the free bytes of the file system that the directory is, or will be, on.
fn free_bytes(directory: &Path) -> Option<u64> {
    let existing = directory.ancestors().find(|ancestor| ancestor.exists())?;
    let stat = statvfs(existing).ok()?;
    Some(stat.blocks_available() * stat.fragment_size())
}
