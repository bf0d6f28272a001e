//! Podman's service, and the same program without it. Both have the same directories and configuration.

use super::network_namespace::NetworkNamespace;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes configuration that replaces the machine's own. Podman's default limits are above those that a
/// process without `CAP_SYS_RESOURCE` may set, and it confuses a soft and a hard limit that differ; its locks
/// would be shared with every other Podman of the machine.
pub fn configure(dir: &Path) -> Result<()> {
    let networks = dir.join("networks");
    std::fs::create_dir(&networks)?;
    std::fs::create_dir(temporary(dir))?;
    let containers = format!(
        "[containers]\ndefault_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]\nlog_driver = \"k8s-file\"\n\
         [engine]\nevents_logger = \"file\"\nlock_type = \"file\"\n[network]\nnetwork_config_dir = \"{}\"\n",
        networks.display()
    );
    std::fs::write(dir.join("containers.conf"), containers)?;
    let (root, run) = (dir.join("root"), dir.join("run"));
    let storage = format!(
        "[storage]\ndriver = \"overlay\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n",
        root.display(),
        run.display()
    );
    std::fs::write(dir.join("storage.conf"), storage)?;
    let registries = format!(
        "unqualified-search-registries = []\n[[registry]]\nlocation = \"{}\"\ninsecure = true\n",
        super::registry::ADDRESS
    );
    std::fs::write(dir.join("registries.conf"), registries)?;
    Ok(())
}

pub fn service(dir: &Path, space: &NetworkNamespace) -> Command {
    let mut command = configured(space.run_bound("podman"), dir);
    command.args(["system", "service", "--time", "0"]).arg(format!("unix://{}", dir.join("sock").display()));
    command
}

pub fn program(dir: &Path, space: Option<&NetworkNamespace>) -> Command {
    configured(space.map_or_else(|| Command::new("podman"), |space| space.run("podman")), dir)
}

/// The directory in which it packs and unpacks images.
pub fn temporary(dir: &Path) -> PathBuf {
    dir.join("temporary")
}

fn configured(mut command: Command, dir: &Path) -> Command {
    command.env("TMPDIR", temporary(dir));
    for (variable, name) in [
        ("CONTAINERS_CONF", "containers.conf"),
        ("CONTAINERS_STORAGE_CONF", "storage.conf"),
        ("CONTAINERS_REGISTRIES_CONF", "registries.conf"),
    ] {
        command.env(variable, dir.join(name));
    }
    // Its crun refuses hybrid control groups.
    command.args(["--runtime", "runc", "--cgroup-manager", "cgroupfs"]);
    for (option, name) in [("--root", "root"), ("--runroot", "run"), ("--tmpdir", "tmp")] {
        command.arg(option).arg(dir.join(name));
    }
    command
}
