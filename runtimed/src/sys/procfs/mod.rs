//! Reads /proc: processes, their names, and the ports they listen on.
//!
//! Must not: trust anything it reads (names and command lines are set by the sandboxed code), read without a
//! bound, or change anything. Every parser is a function over bytes, separate from the reading.

mod buffer;
mod ports;
mod process;
mod process_tree;
mod sock_diag;
mod socket_owners;
mod stat;
mod tcp_table;

pub(in crate::sys) use buffer::Buffer;
pub use ports::listening;
pub use process::{Counts, count, process, rss_bytes};
pub use process_tree::{children, descendants};
