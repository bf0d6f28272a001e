//! One engine of each kind for all tests that only use it. `bin/shared-engines` starts both and names their directories to
//! the command that it runs; a test without these variables starts an engine of its own.

use super::{Engine, Kind, network_namespace::NetworkNamespace};
use anyhow::{Context, Result};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

const PID: &str = "daemon";
/// How often an engine is looked at, and after how many failed looks in a row it is started again.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const LOOKS_FAILED_MAX: u32 = 3;

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
            engine.publish_pid()?;
            engine.import_probe()?;
        }
        Ok(Self { engines })
    }

    /// Looks at the engines until the other end of `ended` is dropped. One that does not answer is reported and started
    /// again: the tests that use it then fail, and not all that follow.
    pub fn watch(&self, ended: &Receiver<()>) {
        let mut failed = [0; 2];
        while matches!(ended.recv_timeout(LOOK_EVERY), Err(RecvTimeoutError::Timeout)) {
            for (engine, failed) in self.engines.iter().zip(&mut failed) {
                *failed = if engine.lists_containers() { 0 } else { *failed + 1 };
                if *failed >= LOOKS_FAILED_MAX {
                    engine.replace_wedged();
                    *failed = 0;
                }
            }
        }
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
        let engine = Self { kind, path, space, own: None };
        engine.probe()?;
        Ok(engine)
    }

    fn publish_pid(&self) -> Result<()> {
        Ok(std::fs::write(self.path().join(PID), self.pid()?.to_string())?)
    }

    fn replace_wedged(&self) {
        let (kind, said) = (self.kind, self.said_last());
        eprintln!("shared-engines: {kind:?} does not answer and is started again; it said last:{said}");
        let replaced = self.kill().and_then(|()| self.again()).and_then(|()| self.publish_pid());
        if let Err(error) = replaced {
            eprintln!("shared-engines: {kind:?} does not come back: {error:#}");
        }
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
