//! Images in files: an OCI layout (a directory or a tar archive), an archive of `docker save`, and a root file system
//! (a tar archive or a directory), told apart by content. Blocks.
//!
//! ```text
//!  path ─▶ ImageArchive::open ─▶ tar_index ─┬─▶ oci_layout ─────┬─▶ LayeredArchive ─▶ open_layer ─▶ unpack_layer
//!                                           └─▶ docker_archive ─┘
//! ```
//!
//! Members of an archive are read where they lie; a compressed archive is first decompressed into a file without a
//! name. What has a digest is verified while it is read.

mod blobs;
mod docker_archive;
mod error;
mod image_archive;
mod layered;
mod oci_layout;
mod tar_index;
mod verified_reader;

pub use error::ArchiveError;
pub use image_archive::ImageArchive;
pub use layered::LayeredArchive;

#[cfg(test)]
mod tests;
