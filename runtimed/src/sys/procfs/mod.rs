//! Reading /proc: which processes there are, what they are called, and which of them listen where.
//!
//! Must not: trust anything it reads (names and command lines belong to the sandboxed code), read without a
//! bound, or change anything. Every parser is a function over bytes, apart from the reading.

mod buffer;
mod diag;
mod owners;
mod ports;
mod process;
mod stat;
mod table;
mod tree;

pub(in crate::sys) use buffer::Buffer;
pub use ports::listening;
pub use process::{Counts, count, process, rss_bytes};
pub use tree::{children, descendants};
