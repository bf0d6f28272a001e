//! One service: when it starts, how it is judged, when it is tried again. It decides and never acts:
//! the supervisor performs the effects and tells what came of them.

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
