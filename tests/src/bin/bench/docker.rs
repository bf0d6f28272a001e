//! The alternative most people run: a dockerd of its own, on a socket of its own, with a small image.

use anyhow::Result;
use std::path::Path;
use std::time::{Duration, Instant};
use tests::engines::{Engine, Image};

pub const IMAGE: &str = "slipway-bench";
/// The same hardening and limits that our sandboxes have.
pub const HARDENED: [&str; 13] = [
    "--network",
    "none",
    "--read-only",
    "--tmpfs",
    "/tmp",
    "--cap-drop",
    "ALL",
    "--security-opt",
    "no-new-privileges",
    "--memory",
    "512m",
    "--pids-limit",
    "512",
];

pub struct Docker {
    engine: Engine,
}

impl Docker {
    /// In a network of its own, so that the machine's is left alone.
    pub fn start() -> Result<Self> {
        let engine = Engine::docker()?;
        engine.import(&Image { name: IMAGE, busybox: true, changes: &[] })?;
        Ok(Self { engine })
    }

    /// `docker run … true`: made, started, ended.
    pub fn run_true(&self) -> Result<Duration> {
        self.timed(&[&["run"], &HARDENED[..], &[IMAGE, "/bin/true"]].concat())
    }

    /// Starts a container that stays and returns its id.
    pub fn run_sleep(&self) -> Result<String> {
        self.detached(
            &[&["run", "--detach"], &HARDENED[..], &[IMAGE, "/bin/busybox", "sleep", "100000"]].concat(),
        )
    }

    /// The id that a `docker run --detach` prints.
    pub fn detached(&self, run: &[&str]) -> Result<String> {
        self.engine.prints(run)
    }

    pub fn exec_true(&self, id: &str) -> Result<Duration> {
        self.timed(&["exec", id, "/bin/true"])
    }

    pub fn remove(&self, id: &str) -> Result<Duration> {
        self.timed(&["rm", "--force", id])
    }

    /// A verb for one container.
    pub fn told(&self, verb: &str, id: &str) -> Result<Duration> {
        self.timed(&[verb, id])
    }

    pub fn path(&self) -> &Path {
        self.engine.path()
    }

    pub fn pid(&self) -> Result<i32> {
        Ok(self.engine.pid()?.as_raw())
    }

    fn timed(&self, arguments: &[&str]) -> Result<Duration> {
        let started = Instant::now();
        self.engine.prints(arguments)?;
        Ok(started.elapsed())
    }
}
