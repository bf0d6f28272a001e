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
//!
//! Tasks do the same by the name of the program of their agent:
//!
//! | program | what it does |
//! |---|---|
//! | `print N` | has said N lines, and succeeded |
//! | `evil` | has printed what would steer a terminal |
//! | `exit N` | has failed with that code |
//! | `ask` | asks for a permission, and succeeds when there is an answer |
//! | `hang`, `stubborn` | runs until it is cancelled; runs on then too |
//! | anything else | has failed for the reason of that name |
//!
//! Their events are cut after every event, each time at another place of the next one. Ports that can be forwarded are
//! in `tunnels`; `GET /v1/host` and what sandboxes cost are in `capacity`, for callers without a token. `TlsFront` puts TLS in front of it, with a certificate of `certificate`.

mod capacity;
mod certificate;
mod execs;
mod files;
mod serve;
mod tasks;
mod tls_front;
mod tunnels;

pub use certificate::{Authority, Certificate, Validity};
pub use serve::FakeHostd;
pub use tls_front::{Speaks, TlsFront};

pub const WEB: &str = "01jb9xyzabcdefghjkmnpqrstv";
pub const API: &str = "01kb9xyzabcdefghjkmnpqrstv";
/// A token that is refused.
pub const BAD_TOKEN: &str = "bad";
/// The one that a create makes.
pub const MADE: &str = "01nb9xyzabcdefghjkmnpqrstv";
