//! An authorizer for tests: admits what the setup says, and records what the gateway reports.

use super::fixture::Setup;
use crate::{
    ActiveBudgets, CallParams, CallRefusal, CallReport, CallTarget, Dialect, Fault, RejectedCall,
    gateway::authorizer::{AdmittedCall, Authorizer, TaskGrant},
};
use futures_util::future::BoxFuture;
use protocol::api::SandboxId;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::timeout};
use tokio_util::sync::CancellationToken;

/// The key of the task, which its agent presents.
pub const PLACEHOLDER: &str = "slw-placeholder";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEvent {
    Began(CallParams),
    Retrying { attempt: u32, fault: Fault, wait_ms: u64 },
    Streamed(u64),
    Completed,
    Ended(CallReport),
    Dropped,
    Rejected(RejectedCall),
}

pub struct Recorder {
    pub call_target: CallTarget,
    /// The limit of output tokens that an admitted call gets.
    pub max_output_tokens: Option<u64>,
    pub output_budget: Option<u64>,
    pub bounded: ActiveBudgets,
    waits: bool,
    /// Cancelled to end the task.
    pub task_ended: CancellationToken,
    events: Mutex<Vec<CallEvent>>,
    /// Number of requests that were sent.
    pub sent: AtomicUsize,
    more: Notify,
}

impl Recorder {
    pub fn new(call_target: CallTarget, setup: &Setup) -> Arc<Self> {
        let (events, more) = (Mutex::default(), Notify::new());
        let task_ended = CancellationToken::new();
        let Setup { max_output_tokens, output_budget, bounded, waits, .. } = *setup;
        let sent = AtomicUsize::new(0);
        Arc::new(Self {
            call_target,
            max_output_tokens,
            output_budget,
            bounded,
            waits,
            task_ended,
            events,
            sent,
            more,
        })
    }

    fn record(&self, event: CallEvent) {
        self.events.lock().expect("mine").push(event);
        self.more.notify_waiters();
    }

    pub fn events(&self) -> Vec<CallEvent> {
        self.events.lock().expect("mine").clone()
    }

    /// Waits until a call has ended or was dropped; returns that event.
    pub async fn last(&self) -> CallEvent {
        let ended = async {
            loop {
                let more = self.more.notified();
                let last = self.events().pop();
                if let Some(last @ (CallEvent::Ended(_) | CallEvent::Dropped)) = last {
                    return last;
                }
                more.await;
            }
        };
        timeout(Duration::from_secs(30), ended).await.expect("a call ends")
    }

    pub async fn end(&self) -> CallReport {
        let last = self.last().await;
        let CallEvent::Ended(end) = last else { panic!("no end: {last:?}") };
        end
    }
}

impl Authorizer for Arc<Recorder> {
    fn authenticate(&self, _: &SandboxId, key: &str) -> Option<Arc<dyn TaskGrant>> {
        (key == PLACEHOLDER).then(|| Arc::new(self.clone()) as Arc<dyn TaskGrant>)
    }
}

impl TaskGrant for Arc<Recorder> {
    fn call_target(&self, dialect: Dialect, model: &str) -> Result<CallTarget, CallRefusal> {
        match model {
            "none" => Err(CallRefusal::Model { model: model.to_owned(), available: self.models(dialect) }),
            _ => Ok(self.call_target.clone()),
        }
    }

    fn wait_until_started(&self) -> BoxFuture<'_, Result<(), CallRefusal>> {
        let started = if self.waits { Err(CallRefusal::Waits) } else { Ok(()) };
        Box::pin(async { started })
    }

    fn bounded(&self) -> ActiveBudgets {
        self.bounded
    }

    fn begin<'a>(
        &'a self,
        _: &'a CallTarget,
        params: CallParams,
    ) -> BoxFuture<'a, Result<Box<dyn AdmittedCall>, CallRefusal>> {
        Box::pin(async move {
            if self.output_budget == Some(0) {
                return Err(CallRefusal::Budget("the budget of the task is used up".to_owned()));
            }
            self.record(CallEvent::Began(params));
            let call = RecordedCall { recorder: self.clone(), ended: false };
            Ok(Box::new(call) as Box<dyn AdmittedCall>)
        })
    }

    fn record_rejected(&self, call: RejectedCall) -> BoxFuture<'_, ()> {
        Box::pin(async { self.record(CallEvent::Rejected(call)) })
    }

    fn models(&self, _: Dialect) -> Vec<String> {
        vec!["alias".to_owned(), "other".to_owned()]
    }
}

struct RecordedCall {
    recorder: Arc<Recorder>,
    ended: bool,
}

impl AdmittedCall for RecordedCall {
    fn max_output_tokens(&self) -> Option<u64> {
        self.recorder.max_output_tokens
    }

    fn task_ended(&self) -> CancellationToken {
        self.recorder.task_ended.clone()
    }

    fn mark_sent(&self) {
        self.recorder.sent.fetch_add(1, Ordering::Relaxed);
    }

    fn report_retry(&self, attempt: u32, fault: &Fault, wait_ms: u64) {
        self.recorder.record(CallEvent::Retrying { attempt, fault: fault.clone(), wait_ms });
    }

    fn report_streamed(&self, output_tokens: u64) -> Result<(), CallRefusal> {
        self.recorder.record(CallEvent::Streamed(output_tokens));
        match self.recorder.output_budget {
            Some(budget) if output_tokens > budget => {
                Err(CallRefusal::Budget("the budget of the task is used up".to_owned()))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn mark_complete(&self) {
        self.recorder.record(CallEvent::Completed);
    }

    fn end(mut self: Box<Self>, end: CallReport) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.ended = true;
            self.recorder.record(CallEvent::Ended(end));
        })
    }
}

impl Drop for RecordedCall {
    fn drop(&mut self) {
        if !self.ended {
            self.recorder.record(CallEvent::Dropped);
        }
    }
}
