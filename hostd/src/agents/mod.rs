//! Agents, the tools that do tasks, as data: which there are, how each is started and connected to its model,
//! and what all of them are told first. Nothing here talks to a sandbox; what is special about one agent is in
//! `agents.toml`.
//!
//! ```text
//!  agents.toml ──┐
//!  configuration ┴▶ Table ──pick──▶ AgentDefinition ──launch(connection, briefing, …)──▶ protocol::Agent + environment
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
