//! Decides which connections a sandbox may open: a pure function of names, addresses and rules to a decision
//! with its reason.
//!
//! ```text
//!  Destination (host, port) ──▶ Policy::precheck ──▶ DNS ──▶ Policy::decide (each address) ──▶ connect to that address
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
