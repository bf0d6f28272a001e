//! Sits at the desk, lets through what he was told to, and writes down what he is told.

use super::front::Setup;
use crate::models::{ActiveBudgets, CallParams, CallRefusal, CallReport, CallTarget, Fault, RejectedCall};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::timeout};
use tokio_util::sync::CancellationToken;

/// What a task's agent shows.
pub const PLACEHOLDER: &str = "slw-placeholder";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    Began(CallParams),
    Retrying { attempt: u32, fault: Fault, wait_ms: u64 },
    Streamed(u64),
    HeardOut,
    Ended(CallReport),
    Dropped,
    RejectedCall(RejectedCall),
}

pub struct Trial {
    pub aim: CallTarget,
    /// The most that may be answered, told with the call and when it streams.
    pub max_output_tokens: Option<u64>,
    pub output_budget: Option<u64>,
    pub bounded: ActiveBudgets,
    waits: bool,
    /// The end of the task.
    pub over: CancellationToken,
    told: Mutex<Vec<Told>>,
    /// How often a request went out.
    pub sent: AtomicUsize,
    more: Notify,
}

impl Trial {
    pub fn new(aim: CallTarget, setup: &Setup) -> Arc<Self> {
        let (told, more) = (Mutex::default(), Notify::new());
        let over = CancellationToken::new();
        let Setup { max_output_tokens, output_budget, bounded, waits, .. } = *setup;
        let sent = AtomicUsize::new(0);
        Arc::new(Self { aim, max_output_tokens, output_budget, bounded, waits, over, told, sent, more })
    }

    pub fn in_its_turn(&self) -> Result<(), CallRefusal> {
        if self.waits { Err(CallRefusal::Waits) } else { Ok(()) }
    }

    pub fn bounded(&self) -> ActiveBudgets {
        self.bounded
    }

    pub fn claim(&self, key: &str) -> bool {
        key == PLACEHOLDER
    }

    pub fn aim(&self, model: &str) -> Result<CallTarget, CallRefusal> {
        match model {
            "none" => Err(CallRefusal::Model { model: model.to_owned(), available: self.models() }),
            _ => Ok(self.aim.clone()),
        }
    }

    pub fn models(&self) -> Vec<String> {
        vec!["alias".to_owned(), "other".to_owned()]
    }

    pub fn begin(self: &Arc<Self>, ask: CallParams) -> Result<TrialCall, CallRefusal> {
        if self.output_budget == Some(0) {
            return Err(CallRefusal::Budget("the budget of the task is used up".to_owned()));
        }
        self.tell(Told::Began(ask));
        Ok(TrialCall { trial: self.clone(), ended: false })
    }

    pub fn turned_away(&self, call: RejectedCall) {
        self.tell(Told::RejectedCall(call));
    }

    fn tell(&self, told: Told) {
        self.told.lock().expect("mine").push(told);
        self.more.notify_waiters();
    }

    pub fn told(&self) -> Vec<Told> {
        self.told.lock().expect("mine").clone()
    }

    /// Waits until a call has ended, one way or the other; the last of what was told.
    pub async fn last(&self) -> Told {
        let ended = async {
            loop {
                let more = self.more.notified();
                match self.told().last() {
                    Some(last @ (Told::Ended(_) | Told::Dropped)) => return last.clone(),
                    _ => more.await,
                }
            }
        };
        timeout(Duration::from_secs(30), ended).await.expect("a call ends")
    }

    pub async fn end(&self) -> CallReport {
        match self.last().await {
            Told::Ended(end) => end,
            other => panic!("no end: {other:?}"),
        }
    }
}

pub struct TrialCall {
    trial: Arc<Trial>,
    ended: bool,
}

impl TrialCall {
    pub fn max_output_tokens(&self) -> Option<u64> {
        self.trial.max_output_tokens
    }

    pub fn over(&self) -> CancellationToken {
        self.trial.over.clone()
    }

    pub fn sent(&self) {
        self.trial.sent.fetch_add(1, Ordering::Relaxed);
    }

    pub fn retrying(&self, attempt: u32, fault: &Fault, wait_ms: u64) {
        self.trial.tell(Told::Retrying { attempt, fault: fault.clone(), wait_ms });
    }

    pub fn streamed(&self, output_tokens: u64) -> Result<(), CallRefusal> {
        self.trial.tell(Told::Streamed(output_tokens));
        match self.trial.output_budget {
            Some(budget) if output_tokens > budget => {
                Err(CallRefusal::Budget("the budget of the task is used up".to_owned()))
            }
            Some(_) | None => Ok(()),
        }
    }

    pub fn heard_out(&self) {
        self.trial.tell(Told::HeardOut);
    }

    pub fn ended(mut self, end: CallReport) {
        self.ended = true;
        self.trial.tell(Told::Ended(end));
    }
}

impl Drop for TrialCall {
    fn drop(&mut self) {
        if !self.ended {
            self.trial.tell(Told::Dropped);
        }
    }
}
