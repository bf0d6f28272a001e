//! The traces of a hostd on the machine, by sandbox id: directories, control groups, workspaces.

use super::{Hostd, cleanup};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traces {
    /// In `<data>/oci`.
    pub directories: BTreeSet<String>,
    /// State directories of the OCI runtime.
    pub states: BTreeSet<String>,
    pub workspaces: BTreeSet<String>,
    /// Below `slipway-<instance>` in any hierarchy.
    pub groups: BTreeSet<String>,
    pub trash: BTreeSet<String>,
    /// Volumes of workspaces with a disk limit.
    pub volumes: BTreeSet<String>,
    /// Mounts below the data directory.
    pub mounts: Vec<PathBuf>,
}

impl Hostd {
    pub fn traces(&self) -> Result<Traces> {
        let names = |path: &str| names(&self.data().join(path));
        let mut directories = names("oci")?;
        directories.remove("run");
        Ok(Traces {
            directories,
            states: names("oci/run")?,
            workspaces: names("workspaces")?,
            groups: cleanup::sandboxes(self.data())?,
            trash: names("trash")?,
            // Made with the first of them.
            volumes: names("volumes").unwrap_or_default(),
            mounts: cleanup::mounts_below(self.data()),
        })
    }

    /// That exactly these sandboxes have left something here, and that only the running ones of them run.
    pub fn holds_only(&self, alive: &BTreeSet<String>, running: &BTreeSet<String>) -> Result<()> {
        let Traces { directories, states, workspaces, groups, trash, volumes: _, mounts: _ } =
            self.traces()?;
        ensure!(directories == *alive, "directories of {directories:?} and records of {alive:?}");
        ensure!(workspaces == *alive, "workspaces of {workspaces:?} and records of {alive:?}");
        ensure!(groups == *running, "control groups of {groups:?}, running are {running:?}");
        ensure!(states == *running, "the runtime knows {states:?}, running are {running:?}");
        ensure!(trash.is_empty(), "in the trash: {trash:?}");
        Ok(())
    }
}

fn names(path: &Path) -> Result<BTreeSet<String>> {
    let entries = std::fs::read_dir(path).with_context(|| format!("list {}", path.display()))?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}
