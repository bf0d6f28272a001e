//! Calls that the gateway rejected. A rejected call counts for its task: an agent that silently gives up
//! because of it has not succeeded.

use super::{Grant, service::now_ms};
use hostd_core::{Spend, budget::settle};
use hostd_store::CallEnd;
use protocol::{ModelCall, ModelCallState, Usage};
use tracing::error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedCall {
    /// The name that the agent used; empty where it was not read.
    pub model: String,
    /// The status of the response to the agent.
    pub status: u16,
    /// A text of hostd: one line, bounded.
    pub message: String,
    /// The rejection counts as a failure of the task's model.
    pub counts: bool,
}

impl Grant {
    /// Records a rejected call and returns when that is durable. It uses one request and no tokens.
    pub async fn record_rejected(&self, call: RejectedCall) {
        let grant_state = &self.grant_state;
        if grant_state.is_closed() {
            return;
        }
        let number = grant_state.call_begun();
        let used = Spend { requests: 1, ..Spend::default() };
        let time_ms = now_ms();
        let aside = Spend::default();
        self.service
            .accounts()
            .with(grant_state.account_key(), time_ms, |accounts| settle(accounts, aside, used));
        let usage = Usage {
            calls: 1,
            failed_calls: u64::from(call.counts),
            cost_micro_usd: Some(0),
            ..Usage::default()
        };
        let state = if call.counts { ModelCallState::Failed } else { ModelCallState::Abandoned };
        let call = ModelCall {
            call: number,
            model: call.model,
            state,
            attempt: 1,
            status: Some(call.status),
            error: Some(call.message),
            usage: Some(usage),
            ..ModelCall::default()
        };
        let write = self.service.store.call_ended(CallEnd {
            task: grant_state.task,
            call,
            used,
            time_ms,
            ..CallEnd::default()
        });
        grant_state.call_ended();
        if let Err(error) = write.written().await {
            error!(task = grant_state.task, %error, "failed to record a rejected model call");
        }
    }
}
