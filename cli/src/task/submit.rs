//! Submits, fetches and cancels tasks, with retries; the id of a task makes sure that it runs once.

use crate::{
    client::{ApiRequest, ApiResponse, ClientError},
    context::Context,
    failure::Failure,
    limits,
    retry::Retry,
};
use protocol::{
    TaskId,
    api::{ApiErrorCode, SandboxId, TaskAnswer, TaskCreate},
};

/// The sandbox and id of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRef {
    pub sandbox: SandboxId,
    pub id: TaskId,
}

impl TaskRef {
    pub fn path(&self) -> String {
        format!("/v1/sandboxes/{}/tasks/{}", self.sandbox, self.id)
    }

    /// Returns the command that follows the task again.
    pub fn follow_command(&self) -> String {
        format!("slipway task follow {} {}", self.sandbox, self.id)
    }
}

pub async fn submit(
    context: &Context,
    sandbox: SandboxId,
    create: &TaskCreate,
) -> Result<(TaskRef, ApiResponse), Failure> {
    let request = ApiRequest::post(format!("/v1/sandboxes/{sandbox}/tasks"))
        .json(create)
        .timeout(limits::SETTLE_TIMEOUT);
    let mut retry = Retry::new();
    let mut sent_before = false;
    loop {
        match context.client.send(request.clone()).await {
            Ok(response) => {
                let task: TaskAnswer = response.parse()?;
                return Ok((TaskRef { sandbox, id: task.id }, response));
            }
            Err(error) if !sent_before && is_final(context, &error) => return Err(error.into()),
            Err(error) => {
                sent_before = true;
                retry.backoff(error).await?;
            }
        }
    }
}

/// Returns whether the error of the first attempt is final: a hostd that never responded is not restarting, and the user
/// decides whether to retry after an API error.
fn is_final(context: &Context, error: &ClientError) -> bool {
    match error {
        ClientError::NotServing { .. } | ClientError::Tls(_) => !context.client.has_answered(),
        ClientError::Api(error) => error.code != ApiErrorCode::ShuttingDown,
        ClientError::BadUrl(_)
        | ClientError::PermissionDenied(_)
        | ClientError::ConnectionLost(_)
        | ClientError::Incomplete
        | ClientError::TimedOut(_)
        | ClientError::Intermediary(_)
        | ClientError::UnexpectedResponse(_) => false,
    }
}

/// Cancels a task, with retries. Succeeds for a task that has ended already.
pub async fn cancel(context: &Context, task: &TaskRef) -> Result<ApiResponse, ClientError> {
    let mut retry = Retry::new();
    loop {
        match context.client.send(ApiRequest::post(format!("{}/cancel", task.path()))).await {
            Ok(response) => return Ok(response),
            Err(error) => retry.backoff(error).await?,
        }
    }
}

pub async fn fetch(context: &Context, task: &TaskRef) -> Result<(TaskAnswer, ApiResponse), Failure> {
    let response = context.client.send(ApiRequest::get(task.path())).await?;
    Ok((response.parse()?, response))
}
