//! One service: when it starts, how it is judged, when it is tried again. It decides and never acts:
//! the supervisor performs the effects and tells what came of them.

mod machine;
mod phase;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

pub use machine::Machine;
pub use phase::{Dependencies, Effect, Input, Phase, Policy, Then, view_state};
