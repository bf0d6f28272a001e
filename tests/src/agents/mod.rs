//! Real agents in real sandboxes, with the fake model as their provider behind hostd's gateway. The agents are those
//! in the directory that `SLIPWAY_AGENTS_DIR` names, as scripts/agents makes it.

mod seat;
mod secrets;
mod seen;
mod workshop;

pub use secrets::Secret;
pub use seen::Seen;
pub use workshop::{APP, KEY, MODEL, Workshop, provider};
