//! What may leave a sandbox, decided. Names, addresses and rules go in; a verdict with its reason comes out.
//!
//! ```text
//!  asked (host, port) ──▶ Policy::before ──▶ looked up ──▶ Policy::judge (each address) ──▶ that very address
//! ```

mod address;
mod claim;
mod host;
mod policy;
mod rule;
mod special_purpose;
mod tally;

pub use address::{Reserved, faces, reserved};
pub use claim::By;
pub use host::{Asked, Host};
pub use policy::{DEFAULT_PROFILE, Exceptions, Layer, Policy, RuleSet, Verdict, Why, built_in};
pub use rule::{RULE_MAX_BYTES, RULES_MAX, Rule};
pub use tally::{Key, More, Tally, Told};
