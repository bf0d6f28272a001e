//! The layout of the data directory. Paths only; does no IO.

use super::seed::Templates;
use protocol::api::{SandboxId, SnapshotId};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct Layout {
    data: PathBuf,
    /// The driver that these sandboxes belong to.
    driver: &'static str,
}

impl Layout {
    pub fn new(data: PathBuf, driver: &'static str) -> Self {
        Self { data, driver }
    }
    pub fn data(&self) -> &Path {
        &self.data
    }
    pub fn sandboxes(&self) -> PathBuf {
        self.data.join(self.driver)
    }
    /// The runtime's state directory (`--root`).
    pub fn states(&self) -> PathBuf {
        self.sandboxes().join("run")
    }
    pub fn state(&self, sandbox: &SandboxId) -> PathBuf {
        self.states().join(sandbox.as_str())
    }
    /// One directory for each driver: its mode depends on who owns the files.
    pub fn workspaces(&self) -> PathBuf {
        match self.driver {
            "oci" => self.data.join("workspaces"),
            other => self.data.join(format!("{other}-workspaces")),
        }
    }
    pub fn workspace(&self, sandbox: &SandboxId) -> PathBuf {
        self.workspaces().join(sandbox.as_str())
    }
    /// Volumes of workspaces with a disk limit; made with the first of them.
    pub fn volumes(&self) -> PathBuf {
        match self.driver {
            "oci" => self.data.join("volumes"),
            other => self.data.join(format!("{other}-volumes")),
        }
    }
    pub fn volume(&self, sandbox: &SandboxId) -> PathBuf {
        self.volumes().join(format!("{sandbox}.ext4"))
    }
    /// One file for each snapshot: the layers that it consists of.
    pub fn snapshots(&self) -> PathBuf {
        self.data.join("snapshots")
    }
    pub fn snapshot(&self, snapshot: &SnapshotId) -> PathBuf {
        self.snapshots().join(format!("{snapshot}.json"))
    }
    /// The hashes of all files of a snapshot.
    pub fn manifest(&self, snapshot: &SnapshotId) -> PathBuf {
        self.snapshots().join(format!("{snapshot}.manifest"))
    }
    /// The layers of snapshots and stacks, one directory each. Nothing in them changes.
    pub fn workspace_layers(&self) -> PathBuf {
        self.data.join("workspace-layers")
    }
    /// The workspaces that consist of layers, one directory each; shared by all drivers.
    pub fn stacks(&self) -> PathBuf {
        self.data.join("stacks")
    }
    pub fn stack(&self, sandbox: &SandboxId) -> StackDir {
        StackDir { dir: self.stacks().join(sandbox.as_str()) }
    }
    /// Backups of workspaces that a restore replaces.
    pub fn replaced(&self) -> PathBuf {
        self.data.join("replaced")
    }
    /// One file for each sandbox whose workspace is to be made from a backup: the layers that it consists of.
    pub fn restored_workspaces(&self) -> PathBuf {
        self.data.join("restored-workspaces")
    }
    pub fn restored_workspace(&self, sandbox: &SandboxId) -> PathBuf {
        self.restored_workspaces().join(format!("{sandbox}.json"))
    }
    /// An empty directory, over which layers of workspaces are mounted in a mount namespace of its own.
    pub fn stack_at(&self) -> PathBuf {
        self.workspace_layers().join(".merged")
    }
    /// The directory of templates: the configured one, or one in the data directory.
    pub fn templates(&self, configured: Option<&Path>) -> Templates {
        Templates { dir: configured.map_or_else(|| self.data.join("templates"), Path::to_owned) }
    }
    pub fn images(&self) -> PathBuf {
        self.data.join("images")
    }
    /// Images by reference, one directory each. No name of an image begins with a dot.
    pub fn pulled_images(&self) -> PathBuf {
        self.images().join(".pulled")
    }
    pub fn layers(&self) -> PathBuf {
        self.images().join(".layers")
    }
    /// Layers that are being downloaded.
    pub fn blobs(&self) -> PathBuf {
        self.images().join(".blobs")
    }
    /// An empty directory, over which the layers of an image are mounted in a mount namespace of its own.
    pub fn merge_at(&self) -> PathBuf {
        self.images().join(".merged")
    }
    /// The image of sandboxes that name none, if the operator chose one.
    pub fn default_image(&self) -> PathBuf {
        self.images().join(".default")
    }
    /// The sandboxes that are launched from layers, whichever driver asks.
    pub fn pinning_sandboxes(&self) -> PathBuf {
        self.data.join("oci")
    }
    pub fn trash(&self) -> PathBuf {
        Self::trash_of(&self.data)
    }
    /// Shared by all drivers.
    pub fn trash_of(data: &Path) -> PathBuf {
        data.join("trash")
    }
    pub fn sandbox(&self, sandbox: &SandboxId) -> SandboxDir {
        SandboxDir { dir: self.sandboxes().join(sandbox.as_str()) }
    }
}

/// `<data>/<driver>/<id>`.
#[derive(Debug, Clone)]
pub struct SandboxDir {
    dir: PathBuf,
}

impl SandboxDir {
    /// The file with the image that the sandbox was launched with.
    pub const IMAGE: &str = "image.json";

    pub fn image(&self) -> PathBuf {
        self.dir.join(Self::IMAGE)
    }
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
    /// Mounted at `/run/runtimed` inside.
    pub fn control(&self) -> PathBuf {
        self.dir.join("control")
    }
    /// Mounted at `/run/slipway` inside.
    pub fn public(&self) -> PathBuf {
        self.dir.join("public")
    }
    /// Output of PID 1.
    pub fn stdio(&self) -> PathBuf {
        self.dir.join("stdio.log")
    }
    /// Locked while the runtime runs.
    pub fn lock(&self) -> PathBuf {
        self.dir.join("launch.lock")
    }
    /// The container of the sandbox, and which of its runs was seen to its end.
    pub fn run(&self) -> PathBuf {
        self.dir.join("run.json")
    }
    pub fn pid(&self) -> PathBuf {
        self.dir.join("pid")
    }
}

/// `<data>/stacks/<id>`: a workspace that consists of layers.
#[derive(Debug, Clone)]
pub struct StackDir {
    dir: PathBuf,
}

impl StackDir {
    pub fn at(dir: PathBuf) -> Self {
        Self { dir }
    }
    pub fn path(&self) -> &Path {
        &self.dir
    }
    /// The list of its layers.
    pub fn record(&self) -> PathBuf {
        self.dir.join("stack.json")
    }
    /// Holds what the overlay writes; one file system, and one project of quotas.
    pub fn live(&self) -> PathBuf {
        self.dir.join("live")
    }
    /// What differs from the layers.
    pub fn upper(&self) -> PathBuf {
        self.live().join("upper")
    }
    /// Used by the kernel.
    pub fn work(&self) -> PathBuf {
        self.live().join("work")
    }
}
