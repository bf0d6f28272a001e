//! Tasks as people live them: asked for, followed, shown, ended.

mod attend;
mod diff;
mod end;
mod fact;
mod flags;
mod model;
mod permission;
mod prompt;
mod question;
mod render;
mod screen;
mod style;
mod submit;
mod summary;
#[cfg(test)]
pub mod tests;
mod tool;
mod watch;

pub use attend::{Attended, Attention, attend};
pub use end::{CANCELLED, code};
pub use flags::{TaskFlags, task_id};
pub use prompt::prompt;
pub use question::answer;
pub use screen::style;
pub use style::Style;
pub use submit::{TaskRef, cancel, look, submit};
pub use summary::{Listing, summary};
