//! The newest attempt to launch a sandbox, while its row waits for something.

use crate::Handle;

#[derive(Debug, Clone, PartialEq, Default)]
pub enum Attempt {
    /// The end of the attempt is recorded, or there was none.
    #[default]
    Closed,
    /// A hostd that died may have left the row open. This hostd has launched nothing for it.
    LeftOpen,
    /// The row is open and launches belong to it. `launched` is the newest run, until it is recorded.
    Open { launched: Option<Handle> },
}

impl Attempt {
    /// A new row is open; the store has ended the one before.
    pub(super) fn begun(self) -> Self {
        match self {
            Self::Closed | Self::LeftOpen => Self::Open { launched: None },
            Self::Open { launched } => Self::Open { launched },
        }
    }

    /// The driver launched a run for the open row.
    pub(super) fn launched(self, run: Handle) -> Self {
        match self {
            Self::Closed => Self::Closed,
            Self::LeftOpen => Self::LeftOpen,
            Self::Open { .. } => Self::Open { launched: Some(run) },
        }
    }

    /// Whether the next launch belongs to this row.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Open { .. } => true,
            Self::Closed | Self::LeftOpen => false,
        }
    }

    /// Whether the end of the attempt is still to be recorded.
    pub fn needs_end(&self) -> bool {
        match self {
            Self::LeftOpen | Self::Open { .. } => true,
            Self::Closed => false,
        }
    }

    /// The newest run of the open row.
    pub fn run(&self) -> Option<&Handle> {
        match self {
            Self::Open { launched } => launched.as_ref(),
            Self::Closed | Self::LeftOpen => None,
        }
    }
}
