//! Calls that wait for work of Slipway: a command, a task, a sandbox that starts. Each can be followed from any position,
//! by any hostd, because position and work are in the ids of the events that were sent (`event_id`).

mod exec;
mod follower;
mod sandbox;
mod stream;
mod task;
mod task_text;

pub use stream::response;
