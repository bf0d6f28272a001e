//! A hostd for tests: a Unix socket, two sandboxes, and execs that behave by the name of their program.
//!
//! | program | what it does |
//! |---|---|
//! | `print N` | has printed N lines, by turns on stdout and stderr, and exited 3 |
//! | `cat` | prints its input, and exits 0 at its end |
//! | `sleep` | runs until a signal or a cancel |
//! | `oom` | was killed for memory |
//!
//! Output is cut after every second chunk, in the middle of the third.

mod execs;
mod serve;

pub use serve::Fake;

pub const WEB: &str = "01jb9xyzabcdefghjkmnpqrstv";
pub const API: &str = "01kb9xyzabcdefghjkmnpqrstv";
