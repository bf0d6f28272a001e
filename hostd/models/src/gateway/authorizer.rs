//! Asks whether a call is allowed, and reports how the call went. `Models` answers; unit tests have a
//! recorder of their own.

use crate::{
    ActiveBudgets, Call, CallParams, CallRefusal, CallReport, CallTarget, Dialect, Fault, Grant, Models,
    RejectedCall,
};
use futures_util::future::BoxFuture;
use protocol::api::SandboxId;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub trait Authorizer: Send + Sync {
    fn authenticate(&self, sandbox: &SandboxId, key: &str) -> Option<Arc<dyn TaskGrant>>;
}

/// The grant of one task.
pub trait TaskGrant: Send + Sync {
    fn call_target(&self, dialect: Dialect, model: &str) -> Result<CallTarget, CallRefusal>;

    /// Waits, not for long, until the task has started: its agent may be faster than the record of that.
    fn wait_until_started(&self) -> BoxFuture<'_, Result<(), CallRefusal>>;

    /// Which kinds of usage the budgets of the task and its tenant bound.
    fn bounded(&self) -> ActiveBudgets;

    fn begin<'a>(
        &'a self,
        call_target: &'a CallTarget,
        params: CallParams,
    ) -> BoxFuture<'a, Result<Box<dyn AdmittedCall>, CallRefusal>>;

    fn record_rejected(&self, call: RejectedCall) -> BoxFuture<'_, ()>;

    /// The names under which the task may call its models.
    fn models(&self, dialect: Dialect) -> Vec<String>;
}

/// A call that may be made; its budget is reserved. Dropped without an end, the call counts as abandoned.
pub trait AdmittedCall: Send + Sync {
    fn max_output_tokens(&self) -> Option<u64>;

    /// Cancelled when the task of the call ends.
    fn task_ended(&self) -> CancellationToken;

    /// The request is on its way to the provider, which may charge for it from here on.
    fn mark_sent(&self);

    fn report_retry(&self, attempt: u32, fault: &Fault, wait_ms: u64);

    fn report_streamed(&self, output_tokens: u64) -> Result<(), CallRefusal>;

    /// The end of the response was relayed.
    fn mark_complete(&self);

    /// Writes the end of the call. Runs only when it is polled.
    fn end(self: Box<Self>, end: CallReport) -> BoxFuture<'static, ()>;
}

impl Authorizer for Models {
    fn authenticate(&self, sandbox: &SandboxId, key: &str) -> Option<Arc<dyn TaskGrant>> {
        Some(Models::authenticate(self, sandbox, key)?)
    }
}

impl TaskGrant for Grant {
    fn call_target(&self, dialect: Dialect, model: &str) -> Result<CallTarget, CallRefusal> {
        self.target(dialect, model)
    }

    fn wait_until_started(&self) -> BoxFuture<'_, Result<(), CallRefusal>> {
        Box::pin(self.wait_until_begun())
    }

    fn bounded(&self) -> ActiveBudgets {
        self.active_budgets()
    }

    fn begin<'a>(
        &'a self,
        call_target: &'a CallTarget,
        params: CallParams,
    ) -> BoxFuture<'a, Result<Box<dyn AdmittedCall>, CallRefusal>> {
        Box::pin(async move {
            let call = self.begin_when_free(call_target, params).await?;
            Ok(Box::new(call) as Box<dyn AdmittedCall>)
        })
    }

    fn record_rejected(&self, call: RejectedCall) -> BoxFuture<'_, ()> {
        Box::pin(Grant::record_rejected(self, call))
    }

    fn models(&self, dialect: Dialect) -> Vec<String> {
        Grant::models(self, dialect)
    }
}

impl AdmittedCall for Call {
    fn max_output_tokens(&self) -> Option<u64> {
        self.max_output_tokens
    }

    fn task_ended(&self) -> CancellationToken {
        Call::task_ended(self)
    }

    fn mark_sent(&self) {
        self.sent();
    }

    fn report_retry(&self, attempt: u32, fault: &Fault, wait_ms: u64) {
        self.retrying(attempt, fault, wait_ms);
    }

    fn report_streamed(&self, output_tokens: u64) -> Result<(), CallRefusal> {
        self.streamed(output_tokens)
    }

    fn mark_complete(&self) {
        self.response_delivered();
    }

    fn end(self: Box<Self>, end: CallReport) -> BoxFuture<'static, ()> {
        Box::pin(self.ended(end))
    }
}
