//! Documents that describe images, of OCI and of Docker's schema 2: what a registry or an archive says about an image,
//! parsed and checked. Pure.
//!
//! ```text
//!  index ──choose_platform──▶ manifest ──▶ config (ImageConfig) and layers (Descriptor, lowest first)
//! ```

mod document;
mod image_config;
mod media_type;
mod platform;

pub use document::{Descriptor, IndexEntry, Manifest, ManifestDocument};
pub use image_config::ImageConfig;
pub use media_type::{IMAGE_MANIFEST_TYPES, INDEX_TYPES};
pub use platform::{Platform, choose_platform};

/// Why an image cannot be used, from its documents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error("its {what} is not valid: {why}")]
    Invalid { what: &'static str, why: String },
    #[error(
        "it is in the old format of Docker (schema 1), which is not supported: push it again with a current Docker"
    )]
    Schema1,
    /// A document that one program takes for an index and another for an image.
    #[error("its manifest says both that it is an image and that it is an index")]
    Ambiguous,
    #[error("it is not an image but {media_type}")]
    NotAnImage { media_type: String },
    #[error("one of its layers is {media_type}, which is not supported: layers are tar, gzip or zstd")]
    LayerType { media_type: String },
    #[error("its {what} has more than {max} bytes")]
    TooLarge { what: &'static str, max: u64 },
    #[error("it has more than {max} {what}")]
    TooMany { what: &'static str, max: usize },
    #[error("it does not exist for {wanted}, only for {found}")]
    NoPlatform { wanted: Platform, found: String },
    #[error("it has several images for {wanted}: use the digest of one of them")]
    SeveralImages { wanted: Platform },
    #[error("it has {layers} layers, and its configuration describes {diff_ids}")]
    LayerCount { layers: usize, diff_ids: usize },
}
