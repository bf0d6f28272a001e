//! Clones a repository inside a sandbox. git runs as the sandbox's user and reaches hostd's git gateway alone, by a
//! grant for this repository that ends with the clone.

use super::{
    provision::StepOutcome,
    provision_exec::{self, StepExec},
};
use crate::git::{GitAccess, GitFailure, GitGateway, GrantError, GrantRequest};
use hostd_core::{GitRemote, Source, clone_argv, clone_env, clone_mark, clone_problem, limits, step_problem};
use hostd_drivers::control::{Control, ControlError};
use hostd_store::SandboxRecord;
use hyper::Method;
use protocol::{
    CancelRequest, Exit,
    api::{Problem, ProblemCode, SecretRef},
    files::{FilePath, FilesRequest, FilesTop},
};
use std::time::Duration;
use tokio::time::timeout;
use tracing::debug;

const WITHIN: Duration = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);

pub(super) async fn clone(
    control: &Control,
    git: &GitGateway,
    record: &SandboxRecord,
    source: &Source,
    index: usize,
) -> Result<StepOutcome, ControlError> {
    let refused = |code, message: String| {
        let problem = step_problem(&record.blueprint, index, None, None, &[]);
        StepOutcome::Failed(Problem { code, message, ..problem })
    };
    let remote = match GitRemote::parse(&source.url) {
        Ok(remote) => remote,
        Err(error) => return Ok(refused(ProblemCode::SourceFailed, error.to_string())),
    };
    let request = GrantRequest {
        sandbox: record.id,
        tenant: &record.owner.tenant,
        remote: &remote,
        auth: source.secret.clone().map(SecretRef::new),
        access: GitAccess::Fetch,
        within: Duration::from_millis(limits::SOURCE_MAX_MS),
    };
    let grant = match git.grant(request).await {
        Ok(grant) => grant,
        Err(error) => return Ok(refused(grant_problem(&error), error.to_string())),
    };
    let exec = StepExec {
        argv: clone_argv(),
        // The directory of the clone may not be there yet.
        cwd: Some("/".to_owned()),
        env: clone_env(source, &grant.remote().to_string(), &grant.url_inside),
        timeout_ms: limits::SOURCE_MAX_MS,
        // The address of the grant alone: branch, directory and server say what went wrong.
        secrets: vec![grant.url_inside.clone()],
    };
    Ok(match provision_exec::run(control, record, index, exec).await? {
        StepOutcome::Failed(problem) => {
            StepOutcome::Failed(explain(problem, grant.failure().as_ref(), source))
        }
        outcome @ (StepOutcome::Succeeded | StepOutcome::SandboxDied) => outcome,
    })
}

/// Ends the clone of an earlier hostd, whose grant ended with it. Returns how it ended: it may have succeeded before, and
/// was lost where it was never started.
pub(super) async fn cancel(control: &Control, record: &SandboxRecord) -> Result<Exit, ControlError> {
    if !provision_exec::is_known(control, record).await? {
        return Ok(Exit::Lost);
    }
    let id = record.provisioning.exec_id();
    let request = CancelRequest { grace_ms: Some(0) };
    let path = format!("/v1/execs/{id}/cancel");
    let cancelled = control.json::<serde::de::IgnoredAny>(Method::POST, &path, Some(&request), WITHIN).await;
    match cancelled {
        // It may have ended by itself; the wait tells.
        Ok(_) | Err(ControlError::Refused(_) | ControlError::Malformed(_)) => {}
        Err(error @ (ControlError::Unreachable(_) | ControlError::Broken(_) | ControlError::TimedOut(_))) => {
            return Err(error);
        }
    }
    provision_exec::wait(control, &id).await.map(|view| view.exit.unwrap_or(Exit::Lost))
}

/// Removes the mark of a clone whose end is recorded. One that stays does no harm: it is within `.git`.
pub(super) async fn remove_mark(control: &Control, source: &Source) {
    let path = FilePath(clone_mark(source).into_bytes());
    let request = FilesRequest::Delete { path, recursive: false, if_match: None };
    let exchange = async {
        let mut connection =
            control.files(FilesTop::Workspace, &request).await.map_err(|error| error.to_string())?;
        connection.finish().await.map_err(|error| error.to_string())?;
        connection.reply().await.map_err(|error| error.to_string())
    };
    match timeout(WITHIN, exchange).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => debug!(error, "failed to remove the mark of a clone"),
        Err(_) => debug!("removing the mark of a clone timed out"),
    }
}

/// The gateway knows better than git why a clone failed.
fn explain(problem: Problem, failure: Option<&GitFailure>, source: &Source) -> Problem {
    let exit = problem.step.as_ref().and_then(|step| step.exit.clone());
    let code = match failure {
        Some(failure) => failure_problem(failure),
        None => {
            let exit_code = if let Some(Exit::Exited { code }) = exit { Some(code) } else { None };
            clone_problem(exit_code, &problem.output)
        }
    };
    let why = match (failure, problem.output.last()) {
        (Some(failure), _) => failure.message(),
        (None, Some(line)) => line.clone(),
        (None, None) => problem.message.clone(),
    };
    let message = format!(
        "could not clone {}: {why}; correct it and start the sandbox to try again, or destroy it",
        source.url
    );
    Problem { code, message, ..problem }
}

fn grant_problem(error: &GrantError) -> ProblemCode {
    match error {
        GrantError::SecretOfOtherServer { .. } | GrantError::NoKey { .. } => ProblemCode::SourceAuthFailed,
        GrantError::TooMany | GrantError::Random(_) | GrantError::Store(_) => ProblemCode::SourceFailed,
    }
}

fn failure_problem(failure: &GitFailure) -> ProblemCode {
    match failure {
        GitFailure::AuthFailed { .. } | GitFailure::Secret(_) => ProblemCode::SourceAuthFailed,
        GitFailure::NotFound { .. } | GitFailure::NotGit { .. } => ProblemCode::SourceNotFound,
        GitFailure::Denied(_)
        | GitFailure::HostKey(_)
        | GitFailure::Unreachable(_)
        | GitFailure::Redirected { .. }
        | GitFailure::Stalled { .. } => ProblemCode::SourceUnreachable,
        GitFailure::TooLarge { .. } => ProblemCode::SourceTooLarge,
        GitFailure::PushRefused(_) | GitFailure::Ended => ProblemCode::SourceFailed,
    }
}
