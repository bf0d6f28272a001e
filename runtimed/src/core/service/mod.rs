//! One service: when it starts, whether it is healthy, when it is retried. Decides and never acts: the
//! supervisor performs the effects and reports the results.

mod machine;
mod phase;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub use machine::Machine;
pub use phase::{AfterStop, Dependencies, Effect, Input, Phase, Policy, view_state};
