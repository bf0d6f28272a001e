//! Archives of `docker save`: `manifest.json` lists images, each with the names of its configuration and layers.

use super::{
    ArchiveError,
    blobs::{Blobs, blob_name},
    layered::{ArchivedImage, ArchivedLayer},
};
use crate::{
    Digest, ImageConfig, ManifestError, Platform,
    layer::EntryPath,
    limits::{ARCHIVE_TAG_MAX_BYTES, ARCHIVE_TAGS_MAX, CONFIG_MAX_BYTES, LAYERS_MAX, MANIFEST_MAX_BYTES},
};
use serde::Deserialize;

pub const MANIFEST_FILE: &str = "manifest.json";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SavedImage {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Reads the list of images; nothing if the file is something else: a root file system may have one of that name.
pub fn read_list(blobs: &Blobs) -> Option<Vec<SavedImage>> {
    let bytes = blobs.read(MANIFEST_FILE, MANIFEST_MAX_BYTES).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Chooses an image by its tag, and checks that all its parts are there.
pub fn open(
    blobs: &Blobs,
    images: Vec<SavedImage>,
    tag: Option<&str>,
) -> Result<ArchivedImage, ArchiveError> {
    let saved = select(images, tag)?;
    let config_name = member_name(&saved.config)?;
    let bytes = blobs.read(&config_name, CONFIG_MAX_BYTES)?;
    let config = ImageConfig::parse(&bytes)?;
    let manifest_digest = Digest::of(&bytes);
    if digest_in_name(&config_name).is_some_and(|digest| digest != manifest_digest) {
        return Err(ArchiveError::DigestMismatch { name: config_name });
    }
    let (layers, diff_ids) = (saved.layers.len(), config.diff_ids.len());
    if layers > LAYERS_MAX {
        return Err(ManifestError::TooMany { what: "layers", max: LAYERS_MAX }.into());
    }
    if layers != diff_ids {
        return Err(ManifestError::LayerCount { layers, diff_ids }.into());
    }
    config.check_platform(&Platform::host())?;
    let layers = saved.layers.iter().map(|name| check_layer(blobs, name)).collect::<Result<_, _>>()?;
    let tags = tags_of(&saved).map(str::to_owned).take(ARCHIVE_TAGS_MAX).collect();
    Ok(ArchivedImage { manifest_digest, config, layers, tags })
}

fn select(mut images: Vec<SavedImage>, tag: Option<&str>) -> Result<SavedImage, ArchiveError> {
    let all_tags = |images: &[SavedImage]| {
        images.iter().flat_map(tags_of).take(ARCHIVE_TAGS_MAX).map(str::to_owned).collect::<Vec<_>>()
    };
    let Some(tag) = tag else {
        return match images.len() {
            0 | 1 => images.pop().ok_or(ArchiveError::Empty),
            _ => Err(ArchiveError::SeveralImages { tags: all_tags(&images) }),
        };
    };
    match images.iter().position(|image| tags_of(image).any(|own| own == tag)) {
        Some(position) => Ok(images.swap_remove(position)),
        None => Err(ArchiveError::NoTag { tag: tag.to_owned(), found: all_tags(&images) }),
    }
}

fn tags_of(image: &SavedImage) -> impl Iterator<Item = &str> {
    let tags = image.repo_tags.iter().flatten().map(String::as_str);
    tags.filter(|tag| tag.len() <= ARCHIVE_TAG_MAX_BYTES)
}

fn check_layer(blobs: &Blobs, name: &str) -> Result<ArchivedLayer, ArchiveError> {
    let name = member_name(name)?;
    if !blobs.has(&name) {
        return Err(ArchiveError::MissingBlob { name });
    }
    // Names of the oldest archives are no digests: `<id>/layer.tar`.
    let digest = digest_in_name(&name).filter(|digest| name == blob_name(digest));
    Ok(ArchivedLayer { name, digest })
}

/// Parses a name that the list refers to.
fn member_name(name: &str) -> Result<String, ArchiveError> {
    let missing = || ArchiveError::MissingBlob { name: name.escape_debug().take(200).collect() };
    let path = EntryPath::parse(name.as_bytes()).map_err(|_| missing())?;
    String::from_utf8(path.as_bytes().to_vec()).map_err(|_| missing())
}

/// Returns the digest that a name consists of: `<digits>.json`, `blobs/sha256/<digits>`, `sha256:<digits>`.
fn digest_in_name(name: &str) -> Option<Digest> {
    let last = name.rsplit('/').next()?;
    let digits = last.strip_suffix(".json").unwrap_or(last);
    let digits = digits.strip_prefix("sha256:").unwrap_or(digits);
    Digest::parse(&format!("sha256:{digits}")).ok()
}
