//! Tests of the reconciler over the real store and a driver in memory.

mod adoption;
mod backend_outage;
mod doze;
mod drift;
mod expiry;
pub(crate) mod fixture;
mod memory_pressure;
mod model_outcomes;
mod restores;
mod simulation;
mod task_handover;
