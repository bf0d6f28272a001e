//! A model server of our own: says what a script says, in each of the four dialects, and remembers what it was
//! asked. Agents, the gateway and benchmarks talk to it as they would to a provider.
//!
//! ```text
//!  request ──dialect::read──▶ Conversation ──Script──▶ Turn ──dialect::write──▶ frames ──▶ answer, with its fault
//! ```

mod anthropic;
mod chat;
mod completion;
mod conversation;
mod dialect;
mod fault;
mod gemini;
mod model_list;
mod received_request;
mod respond;
mod responses;
mod script;
mod server;
mod tools;

pub use conversation::{Conversation, Item, Offer};
pub use dialect::Dialect;
pub use received_request::ReceivedRequest;
pub use script::{Fault, Intent, Part, Script, Turn};
pub use server::FakeModel;
