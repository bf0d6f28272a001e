//! Whether PID 1 of a sandbox answers, and which run it belongs to.

use crate::Handle;

#[derive(Debug, Clone, PartialEq, Default)]
pub enum Readiness {
    /// No run is known.
    #[default]
    Unknown,
    /// An inspection showed this run. Its PID 1 has not answered since it was launched, or since hostd started.
    Seen { run: Handle },
    /// PID 1 answered and has its configuration. The run is unknown until the first inspection after a launch.
    Ready { run: Option<Handle> },
}

/// The relation of an inspected run to the run that was ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Continuity {
    Same,
    /// The ready run is gone: the container was restarted between two inspections.
    Replaced,
}

impl Readiness {
    pub(super) fn seen(self, handle: &Handle) -> (Self, Continuity) {
        let run = handle.clone();
        match self {
            Self::Unknown | Self::Seen { .. } => (Self::Seen { run }, Continuity::Same),
            Self::Ready { run: Some(known) } if known != run => (Self::Seen { run }, Continuity::Replaced),
            Self::Ready { .. } => (Self::Ready { run: Some(run) }, Continuity::Same),
        }
    }

    pub(super) fn ready(self) -> Self {
        match self {
            Self::Unknown => Self::Ready { run: None },
            Self::Seen { run } => Self::Ready { run: Some(run) },
            Self::Ready { run } => Self::Ready { run },
        }
    }

    /// PID 1 has to be configured again.
    pub(super) fn unconfigured(self) -> Self {
        match self {
            Self::Unknown | Self::Ready { run: None } => Self::Unknown,
            Self::Seen { run } | Self::Ready { run: Some(run) } => Self::Seen { run },
        }
    }

    pub fn is_ready(&self) -> bool {
        match self {
            Self::Ready { .. } => true,
            Self::Unknown | Self::Seen { .. } => false,
        }
    }
}
