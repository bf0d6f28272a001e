//! Asking for a task until it is known to be taken: its id makes sure that it runs once.

use crate::{
    client::{Answer, Ask, ClientError},
    context::Context,
    failure::Failure,
    limits,
    patience::Patience,
};
use protocol::{
    TaskId,
    api::{ApiErrorCode, SandboxId, TaskAnswer, TaskCreate},
};

/// A task that hostd knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRef {
    pub sandbox: SandboxId,
    pub id: TaskId,
}

impl TaskRef {
    pub fn path(&self) -> String {
        format!("/v1/sandboxes/{}/tasks/{}", self.sandbox, self.id)
    }

    /// How a person comes back to it.
    pub fn way_back(&self) -> String {
        format!("slipway task follow {} {}", self.sandbox, self.id)
    }
}

pub async fn submit(
    context: &Context,
    sandbox: SandboxId,
    create: &TaskCreate,
) -> Result<(TaskRef, Answer), Failure> {
    let ask =
        Ask::post(format!("/v1/sandboxes/{sandbox}/tasks")).json(create).timeout(limits::SETTLE_TIMEOUT);
    let mut patience = Patience::new();
    let mut sent_before = false;
    loop {
        match context.client.send(ask.clone()).await {
            Ok(answer) => {
                let task: TaskAnswer = answer.parse()?;
                return Ok((TaskRef { sandbox, id: task.id }, answer));
            }
            Err(error) if !sent_before && is_final(context, &error) => return Err(error.into()),
            Err(error) => {
                sent_before = true;
                patience.wait(error).await?;
            }
        }
    }
}

/// Of a first try: a hostd that was never there is not restarting, and whoever is told that there is no room
/// decides for themselves whether to wait.
fn is_final(context: &Context, error: &ClientError) -> bool {
    match error {
        ClientError::NotServing { .. } => !context.client.has_answered(),
        ClientError::Api(error) => error.code != ApiErrorCode::ShuttingDown,
        ClientError::BadUrl(_)
        | ClientError::NotAllowed(_)
        | ClientError::Cut(_)
        | ClientError::Early
        | ClientError::TimedOut(_)
        | ClientError::InBetween(_)
        | ClientError::Strange(_) => false,
    }
}

/// Asks for its end, through restarts of hostd. One that has ended already is as it was asked to be.
pub async fn cancel(context: &Context, task: &TaskRef) -> Result<Answer, ClientError> {
    let mut patience = Patience::new();
    loop {
        match context.client.send(Ask::post(format!("{}/cancel", task.path()))).await {
            Ok(answer) => return Ok(answer),
            Err(error) => patience.wait(error).await?,
        }
    }
}

pub async fn look(context: &Context, task: &TaskRef) -> Result<(TaskAnswer, Answer), Failure> {
    let answer = context.client.send(Ask::get(task.path())).await?;
    Ok((answer.parse()?, answer))
}
