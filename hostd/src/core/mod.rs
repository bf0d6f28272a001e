//! Decisions, pure: no IO, no clock, no `await`; time is an argument.

mod access;
mod allowance;
mod blueprint;
mod duration;
mod plan;
mod preview;
mod sandbox;
mod sound;
mod task;
mod task_line;

pub use access::{Access, Identity};
pub use allowance::{Allowance, Rate};
pub use blueprint::{
    Blueprint, Defaults, Environment, blueprint, check_metadata, check_name, ttl_ms, undress,
};
pub use duration::{parse_duration_ms, rfc3339};
pub use plan::{Container, Death, Desired, Step, plan};
pub use preview::Previews;
pub use sandbox::{Effort, Goal, Move, Refused, Renewal, State, apply};
pub use task::{Ending, TaskFacts, TaskStep, task_step};
pub use task_line::{BadLine, Frames, Means, TaskLine};
