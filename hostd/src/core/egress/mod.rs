//! What may leave a sandbox, decided. Names, addresses and rules go in; a verdict with its reason comes out.
//!
//! ```text
//!  asked (host, port) ──▶ Policy::before ──▶ looked up ──▶ Policy::judge (each address) ──▶ that very address
//! ```

mod address;
mod claimed_job;
mod event_aggregator;
mod host;
mod policy;
mod rule;
mod special_purpose;

pub use address::{Reserved, reserved, with_embedded};
pub use claimed_job::ClaimedJob;
pub use event_aggregator::{EgressEvent, EventAggregator, EventCounts, EventKey};
pub use host::{Destination, Host};
pub use policy::{DEFAULT_PROFILE, Decision, Denial, Exceptions, Layer, Policy, RuleSet, built_in_rules};
pub use rule::{RULE_MAX_BYTES, RULES_MAX, Rule};
