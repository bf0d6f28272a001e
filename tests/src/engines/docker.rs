//! dockerd and its client.

use super::{Setup, network_namespace::NetworkNamespace};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// The daemon, with its own containerd below it.
pub fn daemon(dir: &Path, space: &NetworkNamespace, setup: Setup) -> Result<Command> {
    let mut command = match setup.remapped {
        Some(base) => remapped(dir, space, base)?,
        None => space.run_bound("dockerd"),
    };
    for (option, name) in [("--data-root", "data"), ("--exec-root", "exec"), ("--pidfile", "pid")] {
        command.arg(option).arg(dir.join(name));
    }
    command.arg("--host").arg(format!("unix://{}", dir.join("sock").display()));
    // By this name whatever it leaves is found again.
    command.arg("--cgroup-parent").arg(format!("/{}", group(dir)?)).arg("--ip6tables=false");
    command.args(setup.arguments);
    Ok(command)
}

/// With ids from `base` on, from files that only it sees.
fn remapped(dir: &Path, space: &NetworkNamespace, base: u32) -> Result<Command> {
    let ids = dir.join("subids");
    // A user that every Debian has, with a group of the same name.
    std::fs::write(&ids, format!("daemon:{base}:65536\n"))?;
    let ids = ids.display();
    let line = format!(
        "mount --bind {ids} /etc/subuid && mount --bind {ids} /etc/subgid && mount --make-rshared / && exec \"$@\""
    );
    let mut command = space.run_bound("unshare");
    command.args(["--mount", "sh", "-c", &line, "sh", "dockerd", "--userns-remap=daemon"]);
    Ok(command)
}

pub fn client(socket: &Path) -> Command {
    let mut command = Command::new("docker");
    command.env("DOCKER_HOST", format!("unix://{}", socket.display())).env_remove("DOCKER_CONTEXT");
    command
}

/// The control group below which its containers are.
pub fn group(dir: &Path) -> Result<String> {
    Ok(dir.file_name().context("a name")?.to_string_lossy().into_owned())
}
