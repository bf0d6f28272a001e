//! An image with its layers, in a layout or an archive.

use super::blobs::Blobs;
use crate::{Digest, ImageConfig};
use std::io::{self, Read};

/// One image, chosen and checked; its layers were not read yet.
#[derive(Debug)]
pub struct LayeredArchive {
    pub(super) blobs: Blobs,
    pub(super) image: ArchivedImage,
}

/// What the documents of an archive say about one image.
#[derive(Debug)]
pub struct ArchivedImage {
    pub manifest_digest: Digest,
    pub config: ImageConfig,
    /// The lowest layer first.
    pub layers: Vec<ArchivedLayer>,
    pub tags: Vec<String>,
}

#[derive(Debug)]
pub struct ArchivedLayer {
    pub name: String,
    pub digest: Option<Digest>,
}

impl LayeredArchive {
    /// Returns the digest of the manifest. Archives of `docker save` have none: there it is the digest of the
    /// configuration, which Docker calls the id of the image.
    pub fn manifest_digest(&self) -> &Digest {
        &self.image.manifest_digest
    }

    pub fn config(&self) -> &ImageConfig {
        &self.image.config
    }

    /// Returns the number of layers, which is that of the configuration's `diff_ids`.
    pub fn layer_count(&self) -> usize {
        self.image.layers.len()
    }

    /// Opens a layer as it is stored, compressed or not; the lowest has the number 0. At the end of a layer whose digest
    /// is known, another digest is an error. The caller compares the unpacked layer with its `diff_id` in any case.
    pub fn open_layer(&self, number: usize) -> io::Result<Box<dyn Read + Send>> {
        let layer = self.image.layers.get(number).ok_or(io::ErrorKind::NotFound)?;
        let found = match &layer.digest {
            Some(digest) => self.blobs.open_verified(&layer.name, digest)?,
            None => self.blobs.open(&layer.name)?.map(|(reader, _)| reader),
        };
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns the digest of a layer as it is stored, where the archive tells.
    pub fn layer_digest(&self, number: usize) -> Option<&Digest> {
        self.image.layers.get(number)?.digest.as_ref()
    }

    /// Returns the names that the archive gives to the image.
    pub fn tags(&self) -> Vec<String> {
        self.image.tags.clone()
    }
}
