//! What the edge itself says, when no app does: pages for people, errors for programs. Pure.

mod answer;
mod html;
mod policy;
mod progress;
mod refusal;

pub use answer::{Reader, answer};
pub use progress::{HEARTBEAT, OPENING, WAKE_PATH, frame, patience};
pub use refusal::Refusal;
