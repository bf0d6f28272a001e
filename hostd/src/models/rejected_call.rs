//! A call that the gateway did not pass on. It counts as one of its task: an agent that gives up over it, and says
//! nothing of that, has not succeeded.

use super::{Grant, service::now_ms};
use crate::{
    core::{Spend, budget::settle},
    store::CallEnd,
};
use protocol::{ModelCall, ModelCallState, Usage};
use tracing::error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedCall {
    /// As the agent named it; empty where that was not read.
    pub model: String,
    /// What the agent is told.
    pub status: u16,
    /// In our words: one line, bounded.
    pub message: String,
    /// The task is judged by it.
    pub counts: bool,
}

impl Grant {
    /// Writes it down, and returns when that is durable. It used one request, and nothing else.
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
            error!(task = grant_state.task, %error, "a call that was refused could not be written down");
        }
    }
}
