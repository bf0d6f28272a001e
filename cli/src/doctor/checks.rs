//! Checks of the gathered facts, each with the command that fixes it. Pure.

use super::{Cgroups, Engine, Facts};
use crate::humanize::bytes;
use serde::Serialize;

const NEEDED_CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
/// File watchers of all sandboxes are charged to one user.
const INOTIFY_INSTANCES: u64 = 1024;
const INOTIFY_WATCHES: u64 = 524_288;
const OPEN_FILES: u64 = 65_536;
/// Free space below which no sandbox can be created, and below which a warning is given.
const DISK_NEEDED_BYTES: u64 = 1 << 30;
const DISK_WANTED_BYTES: u64 = 5 << 30;
/// The first kernel with idmapped mounts.
const IDMAP_KERNEL: (u32, u32) = (5, 12);
/// The first kernel with clone3 into a cgroup, pidfds and openat2, which are required.
const OLDEST_KERNEL: (u32, u32) = (5, 7);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Fine,
    /// Works with limitations.
    Warning,
    /// A requirement is missing.
    Missing,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub level: Level,
    pub found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Check {
    pub fn fine(name: &'static str, found: String) -> Self {
        Self { name, level: Level::Fine, found, fix: None }
    }

    pub fn warning(name: &'static str, found: String, fix: Option<String>) -> Self {
        Self { name, level: Level::Warning, found, fix }
    }

    pub fn missing(name: &'static str, found: String, fix: impl Into<String>) -> Self {
        Self { name, level: Level::Missing, found, fix: Some(fix.into()) }
    }
}

pub fn check_all(facts: &Facts) -> Vec<Check> {
    vec![
        root(facts),
        kernel(facts),
        cgroups(facts),
        runtimes(facts),
        engine(facts),
        user_namespaces(facts),
        at_least("inotify", facts.inotify_instances, INOTIFY_INSTANCES, "fs.inotify.max_user_instances"),
        at_least("inotify", facts.inotify_watches, INOTIFY_WATCHES, "fs.inotify.max_user_watches"),
        open_files(facts),
        disk(facts),
        program(
            "hostd",
            facts.hostd.as_ref(),
            "put it beside slipway or on PATH: cargo build --release -p hostd",
        ),
        program(
            "runtimed",
            facts.runtimed.as_ref(),
            "export SLIPWAY_RUNTIMED=$(scripts/build), or put it beside hostd",
        ),
    ]
}

fn root(facts: &Facts) -> Check {
    if facts.root {
        return Check::fine("root", "this is root; hostd has to be".to_owned());
    }
    let found = "this is not root: hostd has to be, and its socket is for root".to_owned();
    Check::missing("root", found, "sudo slipway doctor")
}

fn kernel(facts: &Facts) -> Check {
    let name = "kernel";
    let found = format!("Linux {}", facts.kernel);
    match version(&facts.kernel) {
        Some(version) if version >= IDMAP_KERNEL => {
            Check::fine(name, format!("{found}, has idmapped mounts"))
        }
        Some(version) if version >= OLDEST_KERNEL => {
            let fix = "upgrade to Linux 5.12 or newer: creates are slower without idmapped mounts";
            Check::warning(name, format!("{found}, has no idmapped mounts"), Some(fix.to_owned()))
        }
        _ => Check::missing(name, found, "upgrade to Linux 5.12 or newer"),
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

fn cgroups(facts: &Facts) -> Check {
    let name = "control groups";
    let unified =
        "boot with systemd.unified_cgroup_hierarchy=1 cgroup_enable=memory on the kernel command line";
    let (kind, controllers) = match &facts.cgroups {
        Cgroups::None => return Check::missing(name, "none mounted on /sys/fs/cgroup".to_owned(), unified),
        Cgroups::V1(controllers) => ("v1", controllers),
        Cgroups::Hybrid(controllers) => ("hybrid", controllers),
        Cgroups::V2(controllers) => ("v2", controllers),
    };
    let lacking: Vec<&str> = NEEDED_CONTROLLERS
        .into_iter()
        .filter(|needed| !controllers.iter().any(|known| known == needed))
        .collect();
    if lacking.is_empty() {
        return Check::fine(name, format!("{kind} with {}", controllers.join(", ")));
    }
    Check::missing(name, format!("{kind} without {}", lacking.join(", ")), unified)
}

fn runtimes(facts: &Facts) -> Check {
    let name = "oci runtime";
    let fix = "apt-get install -y crun";
    let found: Vec<String> = facts
        .runtimes
        .iter()
        .map(|runtime| format!("{} ({})", runtime.version, runtime.path.display()))
        .collect();
    if !found.is_empty() {
        return Check::fine(name, found.join(", "));
    }
    match (facts.driver.as_deref(), &facts.engine) {
        (Some("docker"), _) => {
            Check::fine(name, "no crun, runc or youki; the driver docker needs none".to_owned())
        }
        (None | Some("auto"), Engine::Answers(version)) => {
            let found = format!("no crun, runc or youki; {version} is there and will be used");
            Check::warning(name, found, Some(fix.to_owned()))
        }
        _ => Check::missing(name, "no crun, runc or youki, and no Docker in their place".to_owned(), fix),
    }
}

/// Checks Docker or Podman, which is required with SLIPWAY_DRIVER=docker only.
fn engine(facts: &Facts) -> Check {
    let name = "docker";
    let needed = facts.driver.as_deref() == Some("docker");
    let socket = facts.engine_socket.display();
    let get = "apt-get install -y docker.io; or podman, and systemctl enable --now podman.socket; or say where \
               its socket is with SLIPWAY_DOCKER_SOCKET";
    match &facts.engine {
        Engine::Answers(version) => Check::fine(name, format!("{version} at {socket}")),
        Engine::Absent if needed => Check::missing(name, format!("there is no {socket}"), get),
        Engine::Absent => Check::fine(name, format!("there is no {socket}; the driver oci needs none")),
        Engine::Silent(why) => {
            let found = format!("no response at {socket}: {why}");
            let fix = "systemctl restart docker (or podman.socket)";
            if needed {
                Check::missing(name, found, fix)
            } else {
                Check::warning(name, found, Some(fix.to_owned()))
            }
        }
    }
}

fn user_namespaces(facts: &Facts) -> Check {
    let name = "user namespaces";
    // A container engine manages user namespaces itself.
    if facts.driver.as_deref() == Some("docker") {
        return Check::fine(name, "as Docker has them".to_owned());
    }
    match facts.max_user_namespaces {
        Some(0) => {
            Check::missing(name, "switched off".to_owned(), "sysctl -w user.max_user_namespaces=65536")
        }
        Some(most) => Check::fine(name, format!("up to {most}")),
        None => Check::missing(name, "not in this kernel".to_owned(), "use a kernel with CONFIG_USER_NS"),
    }
}

fn at_least(name: &'static str, value: Option<u64>, wanted: u64, key: &str) -> Check {
    match value {
        Some(value) if value >= wanted => Check::fine(name, format!("{key} is {value}")),
        Some(value) => {
            let fix =
                format!("sysctl -w {key}={wanted}; echo {key}={wanted} >> /etc/sysctl.d/60-slipway.conf");
            Check::warning(
                name,
                format!("{key} is {value}: many sandboxes with file watchers need more"),
                Some(fix),
            )
        }
        None => Check::warning(name, format!("{key} cannot be read"), None),
    }
}

fn open_files(facts: &Facts) -> Check {
    let name = "open files";
    match facts.open_files_hard {
        Some(hard) if hard >= OPEN_FILES => Check::fine(name, format!("up to {hard}")),
        Some(hard) => {
            let fix = format!(
                "ulimit -Hn {OPEN_FILES} before hostd starts, or LimitNOFILE={OPEN_FILES} in its unit"
            );
            Check::warning(name, format!("up to {hard}: many sandboxes need more"), Some(fix))
        }
        None => Check::warning(name, "the limit cannot be read".to_owned(), None),
    }
}

fn disk(facts: &Facts) -> Check {
    let name = "disk";
    let place = facts.data_dir.display();
    let fix = format!("free some space, or set SLIPWAY_DATA_DIR to a larger disk than that of {place}");
    match facts.data_free_bytes {
        Some(free) if free >= DISK_WANTED_BYTES => {
            Check::fine(name, format!("{} free for {place}", bytes(free)))
        }
        Some(free) if free >= DISK_NEEDED_BYTES => {
            Check::warning(name, format!("only {} free for {place}", bytes(free)), Some(fix))
        }
        Some(free) => Check::missing(name, format!("only {} free for {place}", bytes(free)), fix),
        None => Check::warning(name, format!("free space for {place} cannot be read"), None),
    }
}

fn program(name: &'static str, path: Option<&std::path::PathBuf>, fix: &str) -> Check {
    match path {
        Some(path) => Check::fine(name, path.display().to_string()),
        None => Check::missing(name, "not found".to_owned(), fix),
    }
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
