//! The state of a container as a driver shows it.

use super::{Death, Observed};
use serde::{Deserialize, Serialize};

/// Identifies one run of a sandbox. Only its driver can read it; everyone else compares it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handle(pub serde_json::Value);

/// The result of inspecting a container.
#[derive(Debug, Clone, PartialEq)]
pub enum ContainerState {
    Absent,
    /// Being started, perhaps for an earlier hostd.
    Launching,
    Running {
        frozen: bool,
        handle: Handle,
    },
    Dead(Death),
    /// Runs, or is being started, in another PID namespace than hostd's: it cannot be watched or ended here.
    OtherPidNamespace,
}

impl ContainerState {
    /// The input of a plan. `ready`: PID 1 of this run answered and has its configuration.
    pub fn observed(&self, ready: bool) -> Observed {
        match self {
            Self::Absent => Observed::Absent,
            Self::Launching => Observed::Launching,
            Self::Running { frozen, .. } => Observed::Running { frozen: *frozen, ready },
            Self::Dead(death) => Observed::Dead(death.clone()),
            Self::OtherPidNamespace => Observed::OtherPidNamespace,
        }
    }
}
