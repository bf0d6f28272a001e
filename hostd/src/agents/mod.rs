//! Agents, the tools that do tasks, as data: which there are, how each is started and connected to its model,
//! and what all of them are told first. Nothing here talks to a sandbox; what is special about one agent is in
//! `agents.toml`.
//!
//! ```text
//!  agents.toml ──┐
//!  configuration ┴▶ Table ──pick──▶ Entry ──launch(connection, briefing, …)──▶ protocol::Agent + environment
//! ```

mod briefing;
mod handle;
mod launch;
mod open;
mod table;
mod template;

pub use briefing::{Briefing, Place};
pub use handle::Agents;
pub use launch::{Connection, Launch, Wish, launch, model_is_plain};
pub use table::{BadAgent, COMMAND, Entry, Install, Speaks, Table, is_name};
