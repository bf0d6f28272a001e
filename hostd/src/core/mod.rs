//! Decisions, pure: no IO, no clock, no `await`; time is an argument.

mod access;
mod allowance;
mod blueprint;
mod cookie;
mod duration;
pub mod edge;
mod explain;
mod heartbeat;
mod idle;
mod pass;
mod pass_url;
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
pub use cookie::{keep_host_only, pass_cookie, pass_cookies, without_pass_cookies};
pub use duration::{parse_duration_ms, rfc3339};
#[cfg(test)]
pub use explain::cases;
pub use explain::{Cause, Explanation, Facts, Lines, Link, Patience, Progress, explain, progress};
pub use heartbeat::Pulse;
pub use idle::{DOZE_MAX_WINDOWS, Quiet, Sleep, Window, idle_inside_ms};
pub use pass::{BadPass, LinkId, PASS_PREFIX, Pass, Passes, Purpose};
pub use pass_url::{Cleared, cleared, url_with_pass};
pub use plan::{Container, Death, Desired, Step, plan};
pub use preview::{Preview, Previews, Scheme};
pub use sandbox::{Effort, Goal, Move, Refused, Renewal, State, apply};
pub use task::{Ending, TaskFacts, TaskStep, task_step};
pub use task_line::{BadLine, Frames, Means, TaskLine};
