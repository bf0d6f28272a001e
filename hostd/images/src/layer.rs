//! Unpacks archives, which may be hostile, into directories that nothing else changes meanwhile. Blocks.
//!
//! ```text
//!  compressed ─▶ read_ahead (own thread: decompress, hash) ─▶ tar_reader ─▶ tree_writer ─▶ kernel
//! ```
//!
//! No path of an archive is resolved by its text: each is opened beneath the directory, without symlinks, by the
//! kernel. A layer takes the form that overlayfs expects of a lower directory; nothing is synced.

mod attributes;
mod entry_path;
mod error;
mod home;
mod read_ahead;
mod tree_writer;
mod unpack;

pub use error::{Refusal, UnpackError};
pub use home::HomeArchive;
pub use unpack::{UnpackedLayer, unpack_archive_within, unpack_layer};

pub(crate) use entry_path::EntryPath;

#[cfg(test)]
mod tests;
