//! Failures of git operations as errors of the API.

use super::{super::error::CallError, runner::GitOutput};
use crate::git::{GitFailure, GrantError};
use protocol::{
    api::{ApiError, ApiErrorCode, GitReason},
    sanitize::one_line,
};

/// Longest part of a message that git itself wrote.
const SAID_MAX_CHARS: usize = 500;

pub fn failed(reason: GitReason, message: impl Into<String>) -> CallError {
    ApiError::new(ApiErrorCode::GitFailed, message).with(|detail| detail.git = Some(reason)).into()
}

/// Explains an exit of git that is not a success, by what it said.
pub fn explain(output: &GitOutput) -> CallError {
    let said = one_line(&output.stderr, SAID_MAX_CHARS);
    let has = |text: &str| output.stderr.contains(text);
    if has("not a git repository") || has("must be run in a work tree") {
        return failed(
            GitReason::NotARepository,
            "this directory is in no git repository: run `git init`, or name another `dir`",
        );
    }
    if has("Please tell me who you are") || has("Author identity unknown") || has("empty ident name") {
        return failed(
            GitReason::NoAuthor,
            "the commit has no author: pass `author` with a name and an email address",
        );
    }
    if has("does not have any commits yet") || has("not a valid object name: 'HEAD'") {
        return failed(GitReason::NoCommits, "the branch has no commit yet");
    }
    failed(GitReason::Refused, format!("git refused: {said}"))
}

/// Explains why an operation failed at the gateway or at the server.
pub fn explain_gateway(failure: &GitFailure) -> CallError {
    let reason = match failure {
        GitFailure::AuthFailed { .. } | GitFailure::Secret(_) => GitReason::AuthFailed,
        GitFailure::NotFound { .. } => GitReason::RemoteNotFound,
        GitFailure::Denied(_)
        | GitFailure::HostKey(_)
        | GitFailure::Redirected { .. }
        | GitFailure::PushRefused(_)
        | GitFailure::TooLarge { .. } => GitReason::RemoteDenied,
        GitFailure::Unreachable(_) | GitFailure::NotGit { .. } | GitFailure::Stalled { .. } => {
            GitReason::RemoteUnreachable
        }
        GitFailure::Ended => GitReason::TimedOut,
    };
    failed(reason, failure.message())
}

impl From<GrantError> for CallError {
    fn from(error: GrantError) -> Self {
        let message = error.to_string();
        match error {
            GrantError::NoKey { .. } => failed(GitReason::InvalidRemote, message),
            GrantError::SecretOfOtherServer { .. } => Self::invalid("auth.secret", message),
            GrantError::TooMany => Self::new(ApiErrorCode::TooMany, message),
            GrantError::Random(_) | GrantError::Store(_) => Self::internal(&error),
        }
    }
}
