//! The client side of the Agent Client Protocol (ACP): one session, one prompt, one response. Pure: lines and
//! orders in, lines and facts out.
//!
//! ```text
//!  Initializing ─▶ (Authenticating) ─▶ Opening ─▶ (Setting)… ─▶ Ready ─▶ Prompting ─▶ Closed
//!        │                 │              │           │           │          │           ▲
//!        └─────────────────┴──────────────┴───────────┴───────────┴──────────┴───────────┘
//!            an error, or a stop; in `Prompting` the agent gets `session/cancel` first
//! ```
//!
//! `Ready` waits for the prompt, which an agent that was started in advance gets later. Messages are read
//! field by field and not as a whole: an unexpected field costs that field and not the message.

mod input_effect;
mod limits;
mod machine;
mod pending_permissions;
mod permission_rules;
mod prompt_turn;
mod rpc;
mod session_setup;
mod settings;
#[cfg(test)]
mod tests;
mod tool_fields;
#[cfg(test)]
mod tool_tests;
mod tools;
mod updates;

pub use input_effect::{Effect, Input, PermissionChoice, PermissionDecision, PromptTurn};
pub use machine::{Machine, Outcome};
pub use prompt_turn::stopped;
