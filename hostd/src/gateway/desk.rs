//! Where the gateway asks who may, and tells how it went: `models`. In its own tests somebody sits there who
//! writes down what he is told.

use crate::models::{
    ActiveBudgets, Call, CallParams, CallRefusal, CallReport, CallTarget, Dialect, Fault, Grant, ModelApi,
    Models, RejectedCall,
};
use protocol::api::SandboxId;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[cfg(test)]
use super::tests::trial::{Trial, TrialCall};

#[derive(Clone)]
pub enum Desk {
    Models(Models),
    #[cfg(test)]
    Trial(Arc<Trial>),
}

/// What one task may do.
pub enum Pass {
    Grant(Arc<Grant>),
    #[cfg(test)]
    Trial(Arc<Trial>),
}

/// A call that was let through.
pub enum Open {
    Call(Box<Call>),
    #[cfg(test)]
    Trial(TrialCall),
}

impl Desk {
    pub fn claim(&self, sandbox: &SandboxId, key: &str) -> Option<Pass> {
        match self {
            Self::Models(models) => models.authenticate(sandbox, key).map(Pass::Grant),
            #[cfg(test)]
            Self::Trial(trial) => trial.claim(key).then(|| Pass::Trial(trial.clone())),
        }
    }
}

impl Pass {
    pub fn aim(&self, speech: ModelApi, model: &str) -> Result<CallTarget, CallRefusal> {
        match self {
            Self::Grant(grant) => grant.target(speech, model),
            #[cfg(test)]
            Self::Trial(trial) => trial.aim(model),
        }
    }

    /// Returns when the turn of the task has come.
    pub async fn in_its_turn(&self) -> Result<(), CallRefusal> {
        match self {
            Self::Grant(grant) => grant.wait_until_begun().await,
            #[cfg(test)]
            Self::Trial(trial) => trial.in_its_turn(),
        }
    }

    /// What some budget bounds.
    pub fn bounded(&self) -> ActiveBudgets {
        match self {
            Self::Grant(grant) => grant.active_budgets(),
            #[cfg(test)]
            Self::Trial(trial) => trial.bounded(),
        }
    }

    pub async fn begin(&self, aim: &CallTarget, ask: CallParams) -> Result<Open, CallRefusal> {
        match self {
            Self::Grant(grant) => {
                grant.begin_when_free(aim, ask).await.map(|call| Open::Call(Box::new(call)))
            }
            #[cfg(test)]
            Self::Trial(trial) => trial.begin(ask).map(Open::Trial),
        }
    }

    pub async fn turned_away(&self, call: RejectedCall) {
        match self {
            Self::Grant(grant) => grant.record_rejected(call).await,
            #[cfg(test)]
            Self::Trial(trial) => trial.turned_away(call),
        }
    }

    /// What the task may call them.
    pub fn models(&self, dialect: Dialect) -> Vec<String> {
        match self {
            Self::Grant(grant) => grant.models(dialect),
            #[cfg(test)]
            Self::Trial(trial) => {
                let _ = dialect;
                trial.models()
            }
        }
    }
}

impl Open {
    pub fn max_output_tokens(&self) -> Option<u64> {
        match self {
            Self::Call(call) => call.max_output_tokens,
            #[cfg(test)]
            Self::Trial(call) => call.max_output_tokens(),
        }
    }

    /// Told when its task is over.
    pub fn over(&self) -> CancellationToken {
        match self {
            Self::Call(call) => call.task_ended(),
            #[cfg(test)]
            Self::Trial(call) => call.over(),
        }
    }

    /// Its request is on its way to the provider, which may count it from here on.
    pub fn sent(&self) {
        match self {
            Self::Call(call) => call.sent(),
            #[cfg(test)]
            Self::Trial(call) => call.sent(),
        }
    }

    pub fn retrying(&self, attempt: u32, fault: &Fault, wait_ms: u64) {
        match self {
            Self::Call(call) => call.retrying(attempt, fault, wait_ms),
            #[cfg(test)]
            Self::Trial(call) => call.retrying(attempt, fault, wait_ms),
        }
    }

    pub fn streamed(&self, output_tokens: u64) -> Result<(), CallRefusal> {
        match self {
            Self::Call(call) => call.streamed(output_tokens),
            #[cfg(test)]
            Self::Trial(call) => call.streamed(output_tokens),
        }
    }

    /// The last word of its answer was passed on.
    pub fn heard_out(&self) {
        match self {
            Self::Call(call) => call.response_delivered(),
            #[cfg(test)]
            Self::Trial(call) => call.heard_out(),
        }
    }

    pub async fn ended(self, end: CallReport) {
        match self {
            Self::Call(call) => call.ended(end).await,
            #[cfg(test)]
            Self::Trial(call) => call.ended(end),
        }
    }
}
