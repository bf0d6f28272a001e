//! A registry of images, in the network of an engine and for it alone.

use super::{Engine, cleanup};
use crate::sandbox::PATIENCE;
use anyhow::{Context, Result, ensure};
use std::process::{Child, Stdio};
use std::time::Instant;

/// The network namespace is private, so the port is free.
pub const ADDRESS: &str = "127.0.0.1:5000";

pub struct Registry {
    child: Child,
}

impl Registry {
    pub fn start(engine: &Engine) -> Result<Self> {
        let dir = engine.path().join("registry");
        std::fs::create_dir_all(&dir)?;
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: {ADDRESS}}}\n",
            dir.display()
        );
        let file = dir.join("config.yml");
        std::fs::write(&file, config)?;
        let log = std::fs::File::create(dir.join("log"))?;
        let mut command = engine.space.run("docker-registry");
        command.arg("serve").arg(&file).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("start docker-registry (scripts/setup installs it)")?;
        let registry = Self { child };
        registry.until_it_answers(engine)?;
        Ok(registry)
    }

    /// Brings an image of the engine into the registry under a name, and takes it away from the engine.
    /// The name that it has from now on.
    pub fn keep(&self, engine: &Engine, image: &str, name: &str) -> Result<String> {
        let full = self.name(name);
        engine.prints(&["tag", image, &full])?;
        engine.prints(&["push", &full])?;
        engine.prints(&["rmi", "--force", &full, image])?;
        Ok(full)
    }

    /// Returns the engine's name of an image in this registry.
    pub fn name(&self, name: &str) -> String {
        format!("{ADDRESS}/{name}")
    }

    fn until_it_answers(&self, engine: &Engine) -> Result<()> {
        let started = Instant::now();
        let url = format!("http://{ADDRESS}/v2/");
        loop {
            let mut curl = engine.space.run("curl");
            if curl.args(["-sf", "-o", "/dev/null", &url]).status()?.success() {
                return Ok(());
            }
            ensure!(started.elapsed() < PATIENCE, "the registry never answers");
            cleanup::pause();
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
