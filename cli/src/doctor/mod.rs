//! What a machine needs for sandboxes: facts are gathered in one place and judged in another.

mod engine;
mod facts;
mod judge;

pub use engine::Engine;
pub use facts::{Cgroups, Facts};
pub use judge::{Check, Level, judge};
