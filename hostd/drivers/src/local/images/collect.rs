//! Collects images by their use: removes pulled images that no sandbox has, layers that no image and no sandbox has, and
//! downloads that were given up.

use super::{ImageRecord, pin, store::ImageStore, store::now_ms};
use crate::{
    DriverError,
    local::{files::failed, remove_tree},
};
use hostd_images::Digest;
use std::{
    collections::{BTreeSet, HashSet},
    fs, io,
    path::PathBuf,
    time::{Duration, SystemTime},
};

/// Downloads that were given up are kept so long, to be resumed.
const BLOB_KEPT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long an image has not been used by a new sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnusedFor {
    pub ms: u64,
}

/// What a collection removed, or would remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectedImages {
    pub images: Vec<String>,
    pub layers: u64,
    /// Content of the files of these layers.
    pub bytes: u64,
}

/// Files that left the store and are still on the disk; a start of hostd removes them, too.
#[derive(Debug)]
#[must_use]
pub struct ImageTrash(Vec<PathBuf>);

impl ImageTrash {
    /// Removes the files, which takes minutes where a disk is slow. Blocks.
    pub fn empty(self) -> Result<(), DriverError> {
        let removed = self.0.iter().try_for_each(|path| remove_tree::remove_tree(path));
        removed.map_err(failed("remove unused layers"))
    }
}

impl ImageStore {
    /// Collects pulled images that were not used for so long. Named images stay: their operator removes them. Without
    /// `apply`, nothing is removed. Blocks.
    pub fn collect(&self, unused: UnusedFor, apply: bool) -> Result<CollectedImages, DriverError> {
        let mut trash = Vec::new();
        let collected = {
            let _changes = self.lock();
            self.mark(unused, apply.then_some(&mut trash))?
        };
        if apply {
            ImageTrash(trash).empty()?;
            self.remove_old_blobs().map_err(failed("remove given-up downloads"))?;
        }
        Ok(collected)
    }

    /// Takes layers that no image and no sandbox has out of the store. Blocks.
    pub fn discard_unused_layers(&self) -> Result<ImageTrash, DriverError> {
        let mut trash = Vec::new();
        let _changes = self.lock();
        // No pulled image is unused for so long.
        self.mark(UnusedFor { ms: u64::MAX }, Some(&mut trash))?;
        Ok(ImageTrash(trash))
    }

    /// Finds what is unused, and moves it to the trash if there is one to fill.
    fn mark(
        &self,
        unused: UnusedFor,
        mut trash: Option<&mut Vec<PathBuf>>,
    ) -> Result<CollectedImages, DriverError> {
        let pinned = pin::all(&self.layout).map_err(failed("read the images of sandboxes"))?;
        let default = self.default_image().and_then(|name| self.record(&name));
        let names: HashSet<&str> = pinned.iter().chain(&default).map(|record| record.name.as_str()).collect();
        let is_old = |record: &ImageRecord| self.used_ms(record).saturating_add(unused.ms) <= now_ms();
        let (old, kept): (Vec<_>, Vec<_>) = self.list()?.into_iter().partition(|record| {
            record.is_by_reference() && !names.contains(record.name.as_str()) && is_old(record)
        });
        let mut collected = CollectedImages::default();
        for record in old {
            if let Some(trash) = &mut trash {
                let gone = remove_tree::move_to_trash(&self.record_dir(&record), &self.layout.trash());
                trash.extend(gone.map_err(failed("remove an unused image"))?);
            }
            collected.images.push(record.name);
        }
        let used: BTreeSet<&Digest> = kept.iter().chain(&pinned).flat_map(ImageRecord::layers).collect();
        for layer in self.layers.list().map_err(failed("list layers"))? {
            if used.contains(&layer) || self.layers.is_held(&layer) {
                continue;
            }
            collected.layers += 1;
            collected.bytes += self.layers.find(&layer).map_or(0, |record| record.bytes);
            if let Some(trash) = &mut trash {
                trash.extend(self.layers.discard(&layer).map_err(failed("remove an unused layer"))?);
            }
        }
        Ok(collected)
    }

    fn remove_old_blobs(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.layout.blobs())? {
            let entry = entry?;
            let age = entry.metadata()?.modified().map(|time| SystemTime::now().duration_since(time));
            if age?.is_ok_and(|age| age > BLOB_KEPT_MAX) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}
