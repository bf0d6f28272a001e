//! Where everything is. Paths only; nothing is touched.

use protocol::api::SandboxId;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct Layout {
    data: PathBuf,
}

impl Layout {
    pub fn new(data: PathBuf) -> Self {
        Self { data }
    }
    pub fn data(&self) -> &Path {
        &self.data
    }
    pub fn sandboxes(&self) -> PathBuf {
        self.data.join("oci")
    }
    /// `--root` of the runtime.
    pub fn states(&self) -> PathBuf {
        self.data.join("oci/run")
    }
    pub fn state(&self, sandbox: &SandboxId) -> PathBuf {
        self.states().join(sandbox.as_str())
    }
    pub fn workspaces(&self) -> PathBuf {
        self.data.join("workspaces")
    }
    pub fn workspace(&self, sandbox: &SandboxId) -> PathBuf {
        self.workspaces().join(sandbox.as_str())
    }
    pub fn images(&self) -> PathBuf {
        self.data.join("images")
    }
    pub fn trash(&self) -> PathBuf {
        self.data.join("trash")
    }
    pub fn sandbox(&self, sandbox: &SandboxId) -> SandboxDir {
        SandboxDir { dir: self.sandboxes().join(sandbox.as_str()) }
    }
}

/// `<data>/oci/<id>`.
#[derive(Debug, Clone)]
pub struct SandboxDir {
    dir: PathBuf,
}

impl SandboxDir {
    pub fn path(&self) -> &Path {
        &self.dir
    }
    pub fn badge(&self) -> PathBuf {
        self.dir.join("badge.json")
    }
    pub fn bundle(&self) -> PathBuf {
        self.dir.join("bundle")
    }
    pub fn config(&self) -> PathBuf {
        self.dir.join("bundle/config.json")
    }
    /// `/run/runtimed` inside.
    pub fn control(&self) -> PathBuf {
        self.dir.join("control")
    }
    /// `/run/slipway` inside.
    pub fn public(&self) -> PathBuf {
        self.dir.join("public")
    }
    /// What PID 1 prints.
    pub fn stdio(&self) -> PathBuf {
        self.dir.join("stdio.log")
    }
    /// Locked while the runtime is at work.
    pub fn lock(&self) -> PathBuf {
        self.dir.join("launch.lock")
    }
    pub fn pid(&self) -> PathBuf {
        self.dir.join("pid")
    }
}
