//! What the edge decides about a request and its answer. Pure.

mod arrival;
mod guard;
mod request;
mod rewrite;
mod strip;
mod window;

pub use arrival::on_its_way;
pub use guard::without_commands;
pub use request::{Malformed, Manner, authority};
pub use rewrite::{Rewrite, end_to_end};
pub use window::{FIRST as TURNS_FIRST, Window};
