//! Media types of documents and layers.

use crate::limits::NAMED_MAX_CHARS;

/// Types of a manifest of one image.
pub const IMAGE_MANIFEST_TYPES: [&str; 2] =
    ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];
/// Types of a list of images, one for each platform.
pub const INDEX_TYPES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
const SCHEMA_1_TYPES: [&str; 2] = [
    "application/vnd.docker.distribution.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v1+prettyjws",
];
/// Types of an image's configuration. The last two are of registries from before there was a type.
const CONFIG_TYPES: [&str; 4] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
    "application/octet-stream",
    "application/json",
];
/// Types of a layer, whose compression is found by its content.
const LAYER_TYPES: [&str; 6] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
];

/// The kind of a document by its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentType {
    Image,
    Index,
    Schema1,
    /// A type that says nothing, such as `application/json`.
    Other,
}

impl DocumentType {
    /// Ignores parameters and case.
    pub fn of(media_type: &str) -> Self {
        let plain = media_type.split(';').next().unwrap_or_default().trim();
        let is_in = |types: &[&str]| types.iter().any(|one| one.eq_ignore_ascii_case(plain));
        if is_in(&IMAGE_MANIFEST_TYPES) {
            Self::Image
        } else if is_in(&INDEX_TYPES) {
            Self::Index
        } else if is_in(&SCHEMA_1_TYPES) {
            Self::Schema1
        } else {
            Self::Other
        }
    }
}

pub fn is_config(media_type: &str) -> bool {
    CONFIG_TYPES.contains(&media_type)
}

pub fn is_layer(media_type: &str) -> bool {
    LAYER_TYPES.contains(&media_type)
}

/// Returns a media type, or another word of a stranger, as an error message shows it.
pub fn shown(text: &str) -> String {
    text.chars().take(NAMED_MAX_CHARS).flat_map(char::escape_debug).collect()
}
