//! Keeps sandboxes as their owners want them. One task per sandbox owns it: it alone performs steps, one
//! at a time, in the order they were asked for.
//!
//! ```text
//!  api ──Ask──▶ fleet ──▶ owner (one per sandbox) ──▶ core::plan ──▶ steps ──▶ driver
//!                 ▲          │ intent before, facts after          ◀── death ──┘
//!                 └─ watch ──┴──▶ store
//!                          runner (one per task without an end) ──▶ runtimed, by control
//! ```

mod adopt;
#[cfg(test)]
mod adopting;
mod away;
mod bring_up;
mod discard;
mod disk;
#[cfg(test)]
mod doze;
#[cfg(test)]
mod drifting;
mod error;
#[cfg(test)]
pub(crate) mod fixture;
mod fleet;
mod follow;
mod found_tasks;
mod owner;
mod perform;
mod published;
mod rest;
mod salvage;
mod shelf;
#[cfg(test)]
mod simulation;
mod site;
mod sse;
#[cfg(test)]
mod taken;
mod task_follow;
mod task_program;
mod tasks;
mod telling;
mod timing;
mod turns;
#[cfg(test)]
mod verdicts;
#[cfg(test)]
mod waiting;

pub use crate::clock::Clock;
pub use error::FleetError;
pub use fleet::{Ask, Fleet, FleetParts};
pub use site::{Site, Visit, Waiting};
pub use task_program::located;
pub use timing::Timing;
