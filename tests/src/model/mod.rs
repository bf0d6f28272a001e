//! A model server of our own: says what a script says, in each of the four dialects, and remembers what it was
//! asked. Agents, the gateway and benchmarks talk to it as they would to a provider.
//!
//! ```text
//!  request ──dialect::read──▶ Asked ──Script──▶ Turn ──dialect::write──▶ frames ──▶ answer, with its fault
//! ```

mod anthropic;
mod asked;
mod chat;
mod fault;
mod gemini;
mod heard;
mod listed;
mod responses;
mod script;
mod server;
mod speech;
mod told;
mod tools;
mod written;

pub use asked::{Asked, Item, Offer};
pub use heard::Heard;
pub use script::{Fault, Intent, Part, Script, Turn};
pub use server::FakeModel;
pub use speech::Speech;
