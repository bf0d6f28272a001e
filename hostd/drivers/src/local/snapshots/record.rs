//! What is on disk beside the layers: the list of each snapshot, and the list of each stack.

use super::super::{
    files,
    layout::{Layout, StackDir},
};
use nix::{fcntl::OFlag, sys::stat::Mode, unistd::fsync};
use protocol::api::{SandboxId, SnapshotId};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    fmt, io,
    path::{Path, PathBuf},
};

const RECORD_MAX_BYTES: u64 = 64 << 10;

/// The name of a layer, a directory below [`Layout::workspace_layers`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LayerId(SnapshotId);

impl LayerId {
    pub fn generate() -> Self {
        let ulid = ulid::Ulid::generate().to_string();
        Self(ulid.parse().expect("a ULID is an id"))
    }

    pub fn parse(name: &str) -> Option<Self> {
        name.parse().ok().map(Self)
    }

    pub fn dir(&self, layout: &Layout) -> PathBuf {
        layout.workspace_layers().join(self.0.as_str())
    }
}

impl fmt::Display for LayerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// A snapshot: its layers, topmost first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRecord {
    pub layers: Vec<LayerId>,
}

/// A workspace of layers, topmost first; what differs from them lies beside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackRecord {
    pub layers: Vec<LayerId>,
    /// The layer that is about to be made of what differs: where it exists, it is the topmost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealing: Option<LayerId>,
}

impl StackRecord {
    /// The record after a seal that may have been cut off.
    pub fn settled(mut self, exists: impl Fn(&LayerId) -> bool) -> Self {
        if let Some(layer) = self.sealing.take().filter(exists) {
            self.layers.insert(0, layer);
        }
        self
    }
}

impl SnapshotRecord {
    /// `None` where there is no such snapshot; [`io::ErrorKind::InvalidData`] where the record cannot be understood.
    pub fn read(layout: &Layout, snapshot: &SnapshotId) -> io::Result<Option<Self>> {
        read(&layout.snapshot(snapshot))
    }

    /// The layers from which a workspace is to be made that was restored from a backup; `None` where there are none.
    pub fn read_restored(layout: &Layout, sandbox: &SandboxId) -> io::Result<Option<Self>> {
        read(&layout.restored_workspace(sandbox))
    }

    /// Publishes the snapshot: its layers are on disk already.
    pub fn write(&self, layout: &Layout, snapshot: &SnapshotId) -> io::Result<()> {
        write(&layout.snapshot(snapshot), self)
    }
}

impl StackRecord {
    /// `None` where the workspace is no stack. An empty record is of a new stack that was not on disk when the power
    /// failed (see [`Self::write_new`]): the next launch makes it anew, or writes its record again.
    pub fn read(stack: &StackDir) -> io::Result<Option<Self>> {
        let is_empty =
            std::fs::symlink_metadata(stack.record()).is_ok_and(|meta| meta.is_file() && meta.len() == 0);
        if is_empty { Ok(None) } else { read(&stack.record()) }
    }

    /// Replaces the record: it is on disk when this returns.
    pub fn write(&self, stack: &StackDir) -> io::Result<()> {
        write(&stack.record(), self)
    }

    /// Writes the record of a new stack, which is not on disk yet.
    pub fn write_new(&self, stack: &StackDir) -> io::Result<()> {
        let bytes = serde_json::to_vec(self).map_err(io::Error::other)?;
        files::replace(&stack.record(), &bytes, 0o600).map(drop)
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match files::read(path, RECORD_MAX_BYTES) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(record) => Ok(Some(record)),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write<T: Serialize>(path: &Path, record: &T) -> io::Result<()> {
    let bytes = serde_json::to_vec(record).map_err(io::Error::other)?;
    files::replace_synced(path, &bytes, 0o600)?;
    sync_dir(path.parent().unwrap_or(Path::new("/")))
}

/// Writes the names in a directory to disk.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    sync_as(dir, OFlag::O_DIRECTORY)
}

/// Writes a file, or the names in a directory, to disk.
pub fn sync_path(path: &Path) -> io::Result<()> {
    sync_as(path, OFlag::O_NOFOLLOW)
}

fn sync_as(path: &Path, kind: OFlag) -> io::Result<()> {
    let opened = nix::fcntl::open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC | kind, Mode::empty());
    fsync(opened.map_err(files::errno)?).map_err(files::errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_that_was_cut_off_counts_when_its_layer_is_there() {
        let (old, new) = (LayerId::generate(), LayerId::generate());
        let cut_off = StackRecord { layers: vec![old.clone()], sealing: Some(new.clone()) };
        let before = cut_off.clone().settled(|_| false);
        assert_eq!(before, StackRecord { layers: vec![old.clone()], sealing: None });
        let after = cut_off.settled(|layer| *layer == new);
        assert_eq!(after, StackRecord { layers: vec![new, old], sealing: None });
    }
}
