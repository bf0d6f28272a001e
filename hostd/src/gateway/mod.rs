//! The model gateway: agents reach the provider of their model through here, with a key that is worth nothing
//! elsewhere. Only inference is passed on; what streams is passed on as it comes.
//!
//! ```text
//!  agent ──▶ route ──▶ key ──▶ body, ask ──▶ desk (may it?) ──▶ tries ──▶ attempt ──▶ provider
//!    ▲                                         ▲                                        │
//!    └────────────── passing ◀──── tap (what was used, did it end well) ◀───────────────┘
//! ```

mod ask;
mod attempt;
mod body;
mod book;
mod desk;
mod elsewhere;
mod failure;
mod headers;
mod json;
mod key;
mod leash;
mod limits;
mod line;
mod lines;
mod offer;
mod origin;
mod passing;
mod places;
mod reckon;
mod refusal;
mod route;
mod scrub;
mod serve;
mod silence;
mod tap;
#[cfg(test)]
mod tests;
mod told;
mod tries;
mod turned_away;

pub use leash::Leash;
pub use offer::{NoOffer, Offer};
pub use serve::Gateway;
