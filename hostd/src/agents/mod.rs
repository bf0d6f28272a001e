//! Agents, the coding tools that perform tasks, as data: which exist, how each is started and connected to
//! its model, and the briefing that all of them get. This module does not talk to sandboxes; what is special
//! about one agent is in `agents.toml`.
//!
//! ```text
//!  agents.toml ──┐
//!  configuration ┴▶ AgentTable ──▶ AgentDefinition ──invocation(access, briefing, …)──▶ protocol::Agent + environment
//! ```

mod briefing;
mod definitions;
mod invocation;
mod load;
mod registry;
mod template;

pub use briefing::{Briefing, BriefingContext};
pub use definitions::{
    AgentConfigError, AgentDefinition, AgentProtocol, AgentTable, COMMAND, Install, is_name,
};
pub use invocation::{Invocation, InvocationRequest, ModelAccess, invocation, model_is_plain};
pub use registry::Agents;
