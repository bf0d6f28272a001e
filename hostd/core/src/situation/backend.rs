//! Whether the backend of a sandbox answers, as far as its verbs show.

use protocol::api::{Problem, ProblemCode};

#[derive(Debug, Clone, PartialEq, Default)]
pub enum Backend {
    /// The newest verb was answered, or nothing needed the backend since.
    #[default]
    Answering,
    /// The backend did not answer when the operation under way needed it. `logged`: a failed step was logged.
    Away { problem: Problem, logged: bool },
    /// No operation waits for the backend, but the log has its outage: not logged again until the backend answers.
    OutageLogged,
}

/// The problem of a verb that was not answered before its deadline.
pub fn no_answer() -> Problem {
    Problem {
        code: ProblemCode::DriverUnavailable,
        message: "the backend did not answer in time".to_owned(),
        output: Vec::new(),
        step: None,
    }
}

impl Backend {
    /// A verb or an inspection was not answered.
    pub(super) fn away(self, problem: Problem) -> Self {
        let logged = self.is_logged();
        Self::Away { problem, logged }
    }

    /// A step failed. Returns whether that is news for the log.
    pub(super) fn step_failed(self, unavailable: bool) -> (Self, bool) {
        let news = !(unavailable && self.is_logged());
        let next = match (self, unavailable) {
            (Self::Away { problem, .. }, logged) => Self::Away { problem, logged },
            (Self::Answering | Self::OutageLogged, true) => Self::OutageLogged,
            (Self::Answering | Self::OutageLogged, false) => Self::Answering,
        };
        (next, news)
    }

    /// The operation under way is given up. Returns the problem of an outage that it waited for.
    pub(super) fn give_up(self) -> (Self, Option<Problem>) {
        match self {
            Self::Answering => (Self::Answering, None),
            Self::Away { problem, logged: true } => (Self::OutageLogged, Some(problem)),
            Self::Away { problem, logged: false } => (Self::Answering, Some(problem)),
            Self::OutageLogged => (Self::OutageLogged, None),
        }
    }

    pub fn is_away(&self) -> bool {
        match self {
            Self::Away { .. } => true,
            Self::Answering | Self::OutageLogged => false,
        }
    }

    fn is_logged(&self) -> bool {
        match self {
            Self::Away { logged, .. } => *logged,
            Self::OutageLogged => true,
            Self::Answering => false,
        }
    }
}
