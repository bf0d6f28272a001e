//! Asks `models` whether a call is allowed, and reports to it how the call went. Unit tests use a recorder
//! instead.

use crate::{
    ActiveBudgets, Call, CallParams, CallRefusal, CallReport, CallTarget, Dialect, Fault, Grant, ModelApi,
    Models, RejectedCall,
};
use protocol::api::SandboxId;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[cfg(test)]
use super::tests::recorder::{RecordedCall, Recorder};

#[derive(Clone)]
pub enum Authorizer {
    Models(Models),
    #[cfg(test)]
    Recorder(Arc<Recorder>),
}

/// The grant of one task.
pub enum TaskGrant {
    Grant(Arc<Grant>),
    #[cfg(test)]
    Recorder(Arc<Recorder>),
}

/// A call that may be made; its budget is reserved.
pub enum AdmittedCall {
    Call(Box<Call>),
    #[cfg(test)]
    Recorder(RecordedCall),
}

impl Authorizer {
    pub fn authenticate(&self, sandbox: &SandboxId, key: &str) -> Option<TaskGrant> {
        match self {
            Self::Models(models) => models.authenticate(sandbox, key).map(TaskGrant::Grant),
            #[cfg(test)]
            Self::Recorder(recorder) => {
                recorder.authenticate(key).then(|| TaskGrant::Recorder(recorder.clone()))
            }
        }
    }
}

impl TaskGrant {
    pub fn call_target(&self, api: ModelApi, model: &str) -> Result<CallTarget, CallRefusal> {
        match self {
            Self::Grant(grant) => grant.target(api, model),
            #[cfg(test)]
            Self::Recorder(recorder) => recorder.call_target(model),
        }
    }

    /// Waits, not for long, until the task has started: its agent may be faster than the record of that.
    pub async fn wait_until_started(&self) -> Result<(), CallRefusal> {
        match self {
            Self::Grant(grant) => grant.wait_until_begun().await,
            #[cfg(test)]
            Self::Recorder(recorder) => recorder.wait_until_started(),
        }
    }

    /// Which kinds of usage the budgets of the task and its tenant bound.
    pub fn bounded(&self) -> ActiveBudgets {
        match self {
            Self::Grant(grant) => grant.active_budgets(),
            #[cfg(test)]
            Self::Recorder(recorder) => recorder.bounded(),
        }
    }

    pub async fn begin(
        &self,
        call_target: &CallTarget,
        params: CallParams,
    ) -> Result<AdmittedCall, CallRefusal> {
        match self {
            Self::Grant(grant) => grant
                .begin_when_free(call_target, params)
                .await
                .map(|call| AdmittedCall::Call(Box::new(call))),
            #[cfg(test)]
            Self::Recorder(recorder) => recorder.begin(params).map(AdmittedCall::Recorder),
        }
    }

    pub async fn record_rejected(&self, call: RejectedCall) {
        match self {
            Self::Grant(grant) => grant.record_rejected(call).await,
            #[cfg(test)]
            Self::Recorder(recorder) => recorder.record_rejected(call),
        }
    }

    /// The names under which the task may call its models.
    pub fn models(&self, dialect: Dialect) -> Vec<String> {
        match self {
            Self::Grant(grant) => grant.models(dialect),
            #[cfg(test)]
            Self::Recorder(recorder) => {
                let _ = dialect;
                recorder.models()
            }
        }
    }
}

impl AdmittedCall {
    pub fn max_output_tokens(&self) -> Option<u64> {
        match self {
            Self::Call(call) => call.max_output_tokens,
            #[cfg(test)]
            Self::Recorder(call) => call.max_output_tokens(),
        }
    }

    /// Cancelled when the task of the call ends.
    pub fn task_ended(&self) -> CancellationToken {
        match self {
            Self::Call(call) => call.task_ended(),
            #[cfg(test)]
            Self::Recorder(call) => call.task_ended(),
        }
    }

    /// The request is on its way to the provider, which may charge for it from here on.
    pub fn mark_sent(&self) {
        match self {
            Self::Call(call) => call.sent(),
            #[cfg(test)]
            Self::Recorder(call) => call.mark_sent(),
        }
    }

    pub fn report_retry(&self, attempt: u32, fault: &Fault, wait_ms: u64) {
        match self {
            Self::Call(call) => call.retrying(attempt, fault, wait_ms),
            #[cfg(test)]
            Self::Recorder(call) => call.report_retry(attempt, fault, wait_ms),
        }
    }

    pub fn report_streamed(&self, output_tokens: u64) -> Result<(), CallRefusal> {
        match self {
            Self::Call(call) => call.streamed(output_tokens),
            #[cfg(test)]
            Self::Recorder(call) => call.report_streamed(output_tokens),
        }
    }

    /// The end of the response was relayed.
    pub fn mark_complete(&self) {
        match self {
            Self::Call(call) => call.response_delivered(),
            #[cfg(test)]
            Self::Recorder(call) => call.mark_complete(),
        }
    }

    pub async fn end(self, end: CallReport) {
        match self {
            Self::Call(call) => call.ended(end).await,
            #[cfg(test)]
            Self::Recorder(call) => call.end(end),
        }
    }
}
