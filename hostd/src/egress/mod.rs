//! The way out of sandboxes without a network: an HTTP proxy that says what it lets through, and why not.
//!
//! ```text
//!  door ──▶ Passage (one per door) ──judge──▶ outside::connect ──▶ tunnel (CONNECT) or forward (http://)
//!              │  ▲ rules: record of the sandbox, profiles            │ bytes
//!              │  └──── what is open and now denied is cut            ▼
//!              └────────────▶ tell: events, the first at once, the rest summed, and bytes used
//! ```
//!
//! **Invariant:** the address that was judged is the address that is connected; nobody looks a name up twice.

mod body;
mod forward;
mod head;
mod limits;
mod line;
mod lines;
mod own;
mod passage;
mod pipe;
mod profiles;
mod proxy;
mod refusal;
mod tell;
#[cfg(test)]
mod tests;
mod trip;
mod tunnel;

pub use passage::Passage;
pub use profiles::{Profiles, ProfilesError};
pub use proxy::{Answered, Egress, EgressParts};
