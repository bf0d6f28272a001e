//! Images of sandboxes: pulled from registries (`registry`), imported from archives (`archive`), checked by digest
//! (`digest`, `manifest`), unpacked once (`layer`) and shared read-only. Knows nothing of drivers, tenants and the
//! database.

// A new variant of an enum must break every match that does not deal with it.
#![warn(clippy::wildcard_enum_match_arm)]

mod archive;
mod compression;
mod copy_tree;
mod digest;
mod layer;
pub mod limits;
mod manifest;
pub mod mount_calls;
mod overlay;
mod pack_tar;
mod reference;
mod registry;
mod registry_allowlist;
#[cfg(test)]
mod tar_fixture;
mod tar_reader;
mod tree_quota;

pub use archive::{ArchiveError, ImageArchive, LayeredArchive};
pub use compression::decompress;
pub use copy_tree::{copy_tree, copy_tree_within};
pub use digest::{Digest, DigestError, DigestReader, Hasher};
pub use layer::{HomeArchive, Refusal, UnpackError, UnpackedLayer, unpack_archive_within, unpack_layer};
pub use manifest::{
    Descriptor, IMAGE_MANIFEST_TYPES, INDEX_TYPES, ImageConfig, IndexEntry, Manifest, ManifestDocument,
    ManifestError, Platform, choose_platform,
};
pub use overlay::{LayerStack, unshare_mounts};
pub use pack_tar::pack_tar;
pub use reference::{IMAGE_REFERENCE_MAX_BYTES, ImageReference, ImageVersion, RESERVED_PREFIXES};
pub use registry::{RegistryClient, RegistryError, RegistryLogin, ResolvedManifest};
pub use registry_allowlist::RegistryAllowlist;
pub use tar_reader::{Member, MemberKind, TarError, TarReader};
pub use tree_quota::{QuotaExceeded, TreeQuota};
