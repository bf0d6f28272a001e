//! The Agent Client Protocol as its client speaks it: one session, one prompt, one answer. Pure: lines and orders
//! in, lines and facts out.
//!
//! ```text
//!  Initializing ─▶ (Authenticating) ─▶ Opening ─▶ (Setting)… ─▶ Ready ─▶ Prompting ─▶ Closed
//!        │                 │              │           │           │          │           ▲
//!        └─────────────────┴──────────────┴───────────┴───────────┴──────────┴───────────┘
//!            an error, or the word to stop; in `Prompting` that is said to the agent first
//! ```
//!
//! `Ready` waits for the prompt, which an agent that was started in advance gets later. What an agent sends is
//! read value by value and not as a whole: a field that nobody foresaw costs that field and not the message.

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
