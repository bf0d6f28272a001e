//! Archives of a tree, as streams.
//!
//! ```text
//! pack:   Walk ─▶ ArchiveWriter (tar, zip) [─▶ gzip] ─▶ Chunks ─▶ Exchange
//! unpack: Exchange ─▶ Received [─▶ gzip] ─▶ tar_reader ─▶ Extractor ─▶ Workspace
//!                             └▶ unnamed file ─▶ zip_reader ─▶ ┘
//! ```
//!
//! **Invariant:** what an archive says about itself (sizes, counts, names) allocates nothing: memory is the same for
//! every archive, but for the directory of a zip that is written, which has a limit.

mod chunks;
mod content;
mod extract;
mod meter;
mod pack;
mod tar_reader;
mod tar_writer;
mod unpack;
mod zip_format;
mod zip_reader;
#[cfg(test)]
mod zip_tests;
mod zip_writer;

#[cfg(test)]
pub use meter::Bounds;
pub use pack::pack;
pub use unpack::unpack;
#[cfg(test)]
pub use unpack::unpack_within;
