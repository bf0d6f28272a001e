//! One engine of each kind for all tests that only use it. `bin/shared-engines` starts both and names their directories to
//! the command that it runs; a test without these variables starts an engine of its own.

use super::{Engine, Kind, network_namespace::NetworkNamespace};
use anyhow::{Context, Result};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};

const PID: &str = "daemon";

/// Two engines, ended with everything that they ran when this value is dropped.
pub struct SharedEngines {
    engines: [Engine; 2],
}

impl SharedEngines {
    pub fn start() -> Result<Self> {
        let podman = std::thread::spawn(Engine::podman);
        let docker = Engine::docker();
        let podman = podman.join().ok().context("the thread that starts Podman panicked")?;
        let engines = [docker?, podman?];
        for engine in &engines {
            std::fs::write(engine.path().join(PID), engine.pid()?.to_string())?;
        }
        Ok(Self { engines })
    }

    /// The variables that name them.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.engines.iter().map(|engine| (variable(engine.kind), engine.path()))
    }
}

impl Engine {
    /// The engine that all tests use, or one of the test's own. What a test makes there has names of its own and is
    /// removed by the test.
    pub fn shared(kind: Kind) -> Result<Self> {
        let Some(path) = std::env::var_os(variable(kind)).map(PathBuf::from) else {
            return Self::start(kind);
        };
        let space = NetworkNamespace::of(pid(&path)?)?;
        Ok(Self { kind, path, space, own: None })
    }
}

fn variable(kind: Kind) -> &'static str {
    match kind {
        Kind::Docker => "SLIPWAY_TEST_DOCKER",
        Kind::Podman => "SLIPWAY_TEST_PODMAN",
    }
}

/// The daemon of a shared engine.
pub fn pid(path: &Path) -> Result<Pid> {
    let text = std::fs::read_to_string(path.join(PID)).context("a shared engine is gone")?;
    Ok(Pid::from_raw(text.trim().parse()?))
}
