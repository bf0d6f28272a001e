//! A control group with limits for one sandbox, and a runtimed in it.

use crate::{
    launch::{self, Launched},
    sandbox::PATIENCE,
};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use tokio::process::Command;

const ROOT: &str = "/sys/fs/cgroup";

pub struct ControlGroup {
    /// A single directory with version 2, one per controller with version 1.
    directories: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    pub memory_bytes: Option<u64>,
    pub pids: Option<u64>,
}

impl ControlGroup {
    pub fn new(limits: Limits) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("slipway-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let unified = Path::new(ROOT).join("cgroup.controllers").exists();
        let controllers: &[&str] = if unified { &["."] } else { &["memory", "pids", "cpuacct"] };
        let mut group = Self { directories: Vec::new() };
        for controller in controllers {
            let parent = Path::new(ROOT).join(controller);
            if unified {
                std::fs::write(parent.join("cgroup.subtree_control"), "+memory +pids +cpu")?;
            }
            let directory = parent.join(&name);
            std::fs::create_dir(&directory).with_context(|| format!("make {}", directory.display()))?;
            group.directories.push(directory);
        }
        let memory = if unified { "memory.max" } else { "memory.limit_in_bytes" };
        group.limit(memory, limits.memory_bytes)?;
        group.limit("pids.max", limits.pids)?;
        Ok(group)
    }

    /// Writes a limit to the controller that has it.
    fn limit(&self, file: &str, value: Option<u64>) -> Result<()> {
        let Some(value) = value else { return Ok(()) };
        let path = self.directories.iter().map(|directory| directory.join(file)).find(|path| path.exists());
        let path = path.with_context(|| format!("no controller has {file}"))?;
        std::fs::write(&path, value.to_string()).with_context(|| format!("write {}", path.display()))
    }

    /// Starts a sandbox whose every process is in this group.
    pub async fn start(&self) -> Result<Launched> {
        let dir = launch::directory()?;
        let mut command = Command::new("sh");
        // The shell moves itself, so that whatever it becomes and forks is in the group from the start.
        let enter = "while [ $1 != -- ]; do echo $$ >$1/cgroup.procs; shift; done; shift; exec \"$@\"";
        command.args(["-ec", enter, "sh"]).args(&self.directories).arg("--");
        command.arg(launch::script("pid1")?).arg(dir.path());
        Launched::start(dir, command, "control/sock").await
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        for directory in &self.directories {
            // The last process may still be on its way out; the kernel then says that the group is busy.
            let until = Instant::now() + PATIENCE;
            let busy = |error: std::io::Error| error.kind() == std::io::ErrorKind::ResourceBusy;
            while std::fs::remove_dir(directory).is_err_and(busy) && Instant::now() < until {
                std::thread::yield_now();
            }
        }
    }
}
