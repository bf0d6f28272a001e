//! OCI layouts: `index.json` lists images, `blobs/` has their parts.

use super::{
    ArchiveError,
    blobs::{Blobs, blob_name},
    layered::{ArchivedImage, ArchivedLayer},
};
use crate::{
    Descriptor, Digest, ImageConfig, IndexEntry, Manifest, ManifestDocument, Platform, choose_platform,
    limits::{
        ARCHIVE_TAG_MAX_BYTES, ARCHIVE_TAGS_MAX, CONFIG_MAX_BYTES, INDEX_DEPTH_MAX, MANIFEST_MAX_BYTES,
    },
};
use std::collections::BTreeSet;

pub const LAYOUT_FILE: &str = "oci-layout";
pub const INDEX_FILE: &str = "index.json";
/// Annotations with the name of an image: a tag, and the full name that containerd and Docker write.
const NAME_ANNOTATIONS: [&str; 2] = ["org.opencontainers.image.ref.name", "io.containerd.image.name"];

/// Chooses an image by its tag and the platform of this host, and checks that all its parts are there.
pub fn open(blobs: &Blobs, tag: Option<&str>) -> Result<ArchivedImage, ArchiveError> {
    let document = ManifestDocument::parse(&blobs.read(INDEX_FILE, MANIFEST_MAX_BYTES)?, None)?;
    let entries = match document {
        ManifestDocument::Index(entries) => entries,
        ManifestDocument::Image(_) => return Err(ArchiveError::Empty),
    };
    let host = Platform::host();
    let named = select(&entries, tag)?;
    let chosen = choose_platform(&named, &host)?;
    let tags = entries.iter().filter(|entry| entry.descriptor.digest == chosen.digest).flat_map(names_of);
    let tags: BTreeSet<String> = tags.take(ARCHIVE_TAGS_MAX).collect();
    let (manifest_digest, manifest) = find_manifest(blobs, chosen.clone(), &host)?;
    let config = ImageConfig::parse(&blobs.read_blob(&manifest.config.digest, CONFIG_MAX_BYTES)?)?;
    manifest.check_config(&config)?;
    config.check_platform(&host)?;
    let layers =
        manifest.layers.into_iter().map(|layer| check_layer(blobs, layer)).collect::<Result<_, _>>()?;
    Ok(ArchivedImage { manifest_digest, config, layers, tags: tags.into_iter().collect() })
}

/// Returns the images of this name, or of the only name there is, each digest once.
fn select(entries: &[IndexEntry], tag: Option<&str>) -> Result<Vec<IndexEntry>, ArchiveError> {
    let all_names = || {
        let names: BTreeSet<String> = entries.iter().flat_map(names_of).take(ARCHIVE_TAGS_MAX).collect();
        names.into_iter().collect::<Vec<_>>()
    };
    let is_wanted = |entry: &&IndexEntry| tag.is_none_or(|tag| names_of(entry).any(|name| name == tag));
    let wanted: Vec<&IndexEntry> = entries.iter().filter(is_wanted).collect();
    match tag {
        Some(tag) if wanted.is_empty() => {
            return Err(ArchiveError::NoTag { tag: tag.to_owned(), found: all_names() });
        }
        None if wanted.is_empty() => return Err(ArchiveError::Empty),
        Some(_) | None => {}
    }
    let mut digests = BTreeSet::new();
    let once: Vec<&IndexEntry> =
        wanted.into_iter().filter(|entry| digests.insert(&entry.descriptor.digest)).collect();
    // Images for several platforms have the same names; several images do not.
    let names: BTreeSet<Vec<String>> = once.iter().map(|entry| names_of(entry).collect()).collect();
    if tag.is_none() && names.len() > 1 {
        return Err(ArchiveError::SeveralImages { tags: all_names() });
    }
    Ok(once.into_iter().cloned().collect())
}

fn names_of(entry: &IndexEntry) -> impl Iterator<Item = String> {
    let names = NAME_ANNOTATIONS.iter().filter_map(|key| entry.annotations.get(*key));
    names.filter(|name| name.len() <= ARCHIVE_TAG_MAX_BYTES).cloned()
}

/// Follows indexes until the manifest of an image.
fn find_manifest(
    blobs: &Blobs,
    mut descriptor: Descriptor,
    host: &Platform,
) -> Result<(Digest, Manifest), ArchiveError> {
    for _ in 0..=INDEX_DEPTH_MAX {
        let bytes = blobs.read_blob(&descriptor.digest, MANIFEST_MAX_BYTES)?;
        match ManifestDocument::parse(&bytes, Some(&descriptor.media_type))? {
            ManifestDocument::Image(manifest) => return Ok((descriptor.digest, manifest)),
            ManifestDocument::Index(entries) => descriptor = choose_platform(&entries, host)?.clone(),
        }
    }
    Err(ArchiveError::IndexDepth)
}

/// Checks that a layer is there with its size.
fn check_layer(blobs: &Blobs, layer: Descriptor) -> Result<ArchivedLayer, ArchiveError> {
    let name = blob_name(&layer.digest);
    let found = blobs.open(&name).map_err(ArchiveError::read(&name))?;
    match found {
        Some((_, bytes)) if bytes == layer.size => Ok(ArchivedLayer { name, digest: Some(layer.digest) }),
        Some(_) => Err(ArchiveError::DigestMismatch { name }),
        None => Err(ArchiveError::MissingBlob { name }),
    }
}
