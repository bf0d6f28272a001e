//! Errors of a driver, as the problems that records show and as outcomes of its verbs.

use hostd_core::VerbOutcome;
use hostd_drivers::DriverError;
use protocol::api::{Problem, ProblemCode};

/// The problem of a record, for people.
pub(super) fn problem_of(error: &DriverError) -> Problem {
    let (code, output) = match error {
        DriverError::Refused { .. } => (ProblemCode::Refused, &[] as &[String]),
        DriverError::Unavailable { .. } | DriverError::OtherPidNamespace { .. } => {
            (ProblemCode::DriverUnavailable, &[] as _)
        }
        DriverError::ImageMissing { .. } => (ProblemCode::ImageMissing, &[] as _),
        DriverError::NameTaken { .. } => (ProblemCode::NameTaken, &[] as _),
        DriverError::DiskFull | DriverError::NoDiskRoom { .. } => (ProblemCode::DiskFull, &[] as _),
        DriverError::MemoryInUse { .. } | DriverError::Conflict { .. } => (ProblemCode::Refused, &[] as _),
        DriverError::Failed { output, .. } => (ProblemCode::LaunchFailed, output.as_slice()),
        DriverError::TimedOut { .. } => (ProblemCode::DeadlinePassed, &[] as _),
        DriverError::Damaged { .. } => (ProblemCode::Damaged, &[] as _),
        DriverError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
            (ProblemCode::DiskFull, &[] as _)
        }
        DriverError::Io { .. } => (ProblemCode::LaunchFailed, &[] as _),
    };
    let message = if let DriverError::Io { source, .. } = error {
        format!("{error}: {source}")
    } else {
        error.to_string()
    };
    Problem { code, message, output: output.to_vec(), step: None }
}

/// The problem of an error that says that the backend is away, or out of reach: later it may answer.
pub(super) fn outage_of(error: &DriverError) -> Option<Problem> {
    match error {
        DriverError::Unavailable { .. } | DriverError::OtherPidNamespace { .. } => Some(problem_of(error)),
        DriverError::Refused { .. }
        | DriverError::ImageMissing { .. }
        | DriverError::NameTaken { .. }
        | DriverError::Conflict { .. }
        | DriverError::DiskFull
        | DriverError::NoDiskRoom { .. }
        | DriverError::MemoryInUse { .. }
        | DriverError::Failed { .. }
        | DriverError::TimedOut { .. }
        | DriverError::Damaged { .. }
        | DriverError::Io { .. } => None,
    }
}

/// The outcome of a verb that failed with this error.
pub(super) fn outcome_of(error: &DriverError) -> VerbOutcome {
    match outage_of(error) {
        Some(problem) => VerbOutcome::Unanswered(problem),
        None => VerbOutcome::Failed,
    }
}
