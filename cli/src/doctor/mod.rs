//! What a machine needs for sandboxes: facts are gathered in one place and judged in another.

mod checks;
mod engine;
mod facts;

pub use checks::{Check, Level, check_all};
pub use engine::Engine;
pub use facts::{Cgroups, Facts};
