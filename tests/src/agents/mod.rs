//! Real agents in real sandboxes, with the fake model as their provider behind hostd's gateway. The agents are those
//! in the directory that `SLIPWAY_AGENTS_DIR` names, as scripts/agents makes it.

mod concurrency_limit;
mod ended_task;
mod fixture;
mod secrets;

pub use ended_task::EndedTask;
pub use fixture::{APP, AgentsFixture, KEY, MODEL, provider};
pub use secrets::Secret;
