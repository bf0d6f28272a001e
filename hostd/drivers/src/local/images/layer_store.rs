//! Unpacked layers, shared by all images: `<data>/images/.layers/<digest>/tree`, with `layer.json` beside it.
//!
//! A layer is unpacked into the trash, synced, and renamed: what is found here is whole. Its name is the digest of the
//! archive that it was unpacked from, so that it never changes.

use super::super::{files, limits::LAYER_RECORD_MAX_BYTES, remove_tree, trash::NewEntry};
use hostd_images::{Digest, TreeQuota, UnpackedLayer, unpack_layer};
use nix::unistd::syncfs;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

const TREE: &str = "tree";
const RECORD: &str = "layer.json";

#[derive(Clone)]
pub struct LayerStore {
    dir: PathBuf,
    trash: PathBuf,
    /// Layers that images in the making need, by the number of those images: they are not collected.
    held: Arc<Mutex<HashMap<Digest, usize>>>,
}

/// What is known about a layer without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRecord {
    pub bytes: u64,
    pub entries: u64,
    pub set_id_files: u64,
    /// The layer hides all layers below.
    pub is_root_opaque: bool,
}

impl From<&UnpackedLayer> for LayerRecord {
    fn from(unpacked: &UnpackedLayer) -> Self {
        let UnpackedLayer { bytes, entries, set_id_files, is_root_opaque, .. } = *unpacked;
        Self { bytes, entries, set_id_files, is_root_opaque }
    }
}

/// Layers that are not collected while this exists.
pub struct LayerHold {
    store: LayerStore,
    layers: Vec<Digest>,
}

/// A layer that is written to disk, and not in the store yet. Removed unless it is added.
pub struct NewLayer {
    entry: NewEntry,
    pub digest: Digest,
}

impl LayerStore {
    pub fn open(dir: PathBuf, trash: PathBuf) -> io::Result<Self> {
        files::make_dir(&dir, 0o700)?;
        Ok(Self { dir, trash, held: Arc::default() })
    }

    /// The tree of a layer.
    pub fn tree(&self, layer: &Digest) -> PathBuf {
        self.layer_dir(layer).join(TREE)
    }

    /// Returns what is known about a layer, if the store has it.
    pub fn find(&self, layer: &Digest) -> Option<LayerRecord> {
        let text = files::read(&self.layer_dir(layer).join(RECORD), LAYER_RECORD_MAX_BYTES).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Keeps layers from being collected, whether the store has them or not.
    pub fn hold(&self, layers: Vec<Digest>) -> LayerHold {
        let mut held = self.held();
        for layer in &layers {
            *held.entry(layer.clone()).or_default() += 1;
        }
        LayerHold { store: self.clone(), layers }
    }

    pub fn is_held(&self, layer: &Digest) -> bool {
        self.held().contains_key(layer)
    }

    /// Unpacks a layer whose archive must have this digest. Blocks.
    pub fn unpack(
        &self,
        digest: &Digest,
        compressed: impl Read + Send,
        quota: &mut TreeQuota,
    ) -> io::Result<NewLayer> {
        self.write(digest, |tree| {
            let unpacked = unpack_layer(compressed, tree, quota)?;
            if unpacked.diff_id != *digest {
                let found = &unpacked.diff_id;
                return Err(io::Error::other(format!(
                    "its layer {digest} unpacks to {found}: it is damaged"
                )));
            }
            Ok(LayerRecord::from(&unpacked))
        })
    }

    /// Writes a layer that the caller fills.
    pub fn write(
        &self,
        digest: &Digest,
        fill: impl FnOnce(&Path) -> io::Result<LayerRecord>,
    ) -> io::Result<NewLayer> {
        let entry = NewEntry::reserve(&self.trash, "layer");
        let tree = entry.path().join(TREE);
        let written = files::make_dir(entry.path(), 0o711)
            .and_then(|()| files::make_dir(&tree, 0o755))
            .and_then(|()| fill(&tree))
            .and_then(|record| {
                files::replace(&entry.path().join(RECORD), &serde_json::to_vec(&record)?, 0o644)
            });
        match written {
            Ok(_) => Ok(NewLayer { entry, digest: digest.clone() }),
            Err(error) => {
                let _ = remove_tree::remove_tree(entry.path());
                Err(error)
            }
        }
    }

    /// Adds written layers, which survive a power cut from here on. One that was added meanwhile stays.
    pub fn add(&self, layers: &[NewLayer]) -> io::Result<()> {
        if layers.is_empty() {
            return Ok(());
        }
        let dir = File::open(&self.dir)?;
        syncfs(&dir)?;
        for layer in layers {
            match fs::rename(layer.entry.path(), self.layer_dir(&layer.digest)) {
                Err(error) if self.find(&layer.digest).is_none() => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        dir.sync_all()
    }

    /// Returns the digests of all layers.
    pub fn list(&self) -> io::Result<Vec<Digest>> {
        let mut layers = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            layers.extend(name.to_str().and_then(|hex| Digest::parse(&format!("sha256:{hex}")).ok()));
        }
        Ok(layers)
    }

    /// Takes a layer out of the store; returns where it lies in the trash.
    pub fn discard(&self, layer: &Digest) -> io::Result<Option<PathBuf>> {
        remove_tree::move_to_trash(&self.layer_dir(layer), &self.trash)
    }

    fn layer_dir(&self, layer: &Digest) -> PathBuf {
        self.dir.join(layer.hex())
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Digest, usize>> {
        // A panic elsewhere leaves no count half changed.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LayerHold {
    fn drop(&mut self) {
        let mut held = self.store.held();
        for layer in &self.layers {
            if let Some(count) = held.get_mut(layer) {
                *count -= 1;
                if *count == 0 {
                    held.remove(layer);
                }
            }
        }
    }
}

impl Drop for NewLayer {
    fn drop(&mut self) {
        // Nothing is left here once it was added.
        if let Err(error) = remove_tree::remove_tree(self.entry.path()) {
            tracing::warn!(path = %self.entry.path().display(), %error, "failed to remove an unused layer");
        }
    }
}
