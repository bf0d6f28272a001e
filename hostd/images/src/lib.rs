//! Images of sandboxes: pulled from registries (`registry`), checked by digest (`digest`, `manifest`), unpacked once and
//! shared read-only. Knows nothing of drivers, tenants and the database.

// A new variant of an enum must break every match that does not deal with it.
#![warn(clippy::wildcard_enum_match_arm)]

mod digest;
mod limits;
mod manifest;
mod reference;
mod registry;
mod registry_allowlist;

pub use digest::{Digest, DigestError, DigestReader, Hasher};
pub use manifest::{
    Descriptor, IMAGE_MANIFEST_TYPES, INDEX_TYPES, ImageConfig, IndexEntry, Manifest, ManifestDocument,
    ManifestError, Platform, choose_platform,
};
pub use reference::{IMAGE_REFERENCE_MAX_BYTES, ImageReference, ImageVersion, RESERVED_PREFIXES};
pub use registry::{RegistryClient, RegistryError, RegistryLogin, ResolvedManifest};
pub use registry_allowlist::RegistryAllowlist;
