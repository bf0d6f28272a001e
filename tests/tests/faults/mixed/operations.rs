//! What was asked of hostd, by kind, and how it was answered: done, refused with a code, or cut off by a death of hostd.
//! Any other answer is a failure.

use super::faults::Outages;
use anyhow::Result;
use protocol::api::{ApiErrorBody, ApiErrorCode};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tests::Reply;
use tests::frames::is_cut;

const HISTORY_MAX: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Create,
    Exec,
    Task,
    Write,
    Read,
    Preview,
    Snapshot,
    Fork,
    Pause,
    Stop,
    Start,
    Destroy,
}

#[derive(Debug, Default, Clone, Serialize)]
pub struct Counts {
    pub done: u64,
    /// By code, and `ended:<how>` for an exec or a task that a death in the sandbox ended.
    pub refused: BTreeMap<String, u64>,
    /// hostd died meanwhile.
    pub cut: u64,
    #[serde(skip)]
    times_ms: Vec<u32>,
}

impl Counts {
    /// The time that so many percent of the answers took at most.
    pub fn percentile_ms(&self, percent: usize) -> u32 {
        let mut times = self.times_ms.clone();
        times.sort_unstable();
        times.get((times.len() * percent / 100).min(times.len().saturating_sub(1))).copied().unwrap_or(0)
    }
}

#[derive(Debug, Default)]
pub struct Operations {
    counts: Mutex<BTreeMap<Operation, Counts>>,
    failures: Mutex<Vec<String>>,
    /// What was done last, for those who look for the cause of a failure.
    history: Mutex<VecDeque<String>>,
}

/// How an operation was answered.
#[derive(Debug)]
pub enum Answer {
    Done(Reply),
    Refused(ApiErrorCode),
    /// It may have been performed.
    Cut,
    /// Recorded as a failure.
    Wrong,
}

/// An operation that was begun.
pub struct Begun {
    operation: Operation,
    at: Instant,
    outages: u64,
    deaths: u64,
}

impl Begun {
    pub fn new(operation: Operation, outages: &Outages) -> Self {
        Self { operation, at: Instant::now(), outages: outages.ended(), deaths: outages.deaths() }
    }
}

impl Begun {
    /// Whether hostd died meanwhile, or for a preview perhaps the app.
    fn may_be_cut(&self, outages: &Outages) -> bool {
        outages.since(self.outages)
            || (self.operation == Operation::Preview && outages.deaths() > self.deaths)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Operations {
    /// Judges an answer and counts it.
    pub fn judge(&self, begun: &Begun, answer: Result<Reply>, outages: &Outages) -> Answer {
        let operation = begun.operation;
        match answer {
            Ok(reply) if reply.status < 400 => {
                self.count(operation, |counts| {
                    counts.done += 1;
                    counts.times_ms.push(u32::try_from(begun.at.elapsed().as_millis()).unwrap_or(u32::MAX));
                });
                Answer::Done(reply)
            }
            Ok(reply) => match reply.json::<ApiErrorBody>() {
                Ok(body) if body.error.code != ApiErrorCode::Internal => {
                    self.refused(operation, &word(body.error.code));
                    Answer::Refused(body.error.code)
                }
                Ok(_) | Err(_) => self.wrong(operation, &format!("{} {}", reply.status, reply.text())),
            },
            Err(error) if is_cut(&error) && begun.may_be_cut(outages) => {
                self.count(operation, |counts| counts.cut += 1);
                Answer::Cut
            }
            Err(error) => self.wrong(operation, &format!("{error:#}")),
        }
    }

    /// Counts an end that the answer names.
    pub fn refused(&self, operation: Operation, how: &str) {
        self.count(operation, |counts| *counts.refused.entry(how.to_owned()).or_default() += 1);
    }

    /// Notes what was done.
    pub fn note(&self, what: String) {
        let mut history = locked(&self.history);
        history.push_back(what);
        if history.len() > HISTORY_MAX {
            history.pop_front();
        }
    }

    pub fn wrong(&self, operation: Operation, what: &str) -> Answer {
        let history = locked(&self.history).iter().cloned().collect::<Vec<_>>().join("\n  ");
        eprintln!("{operation:?}: {what}; before that:\n  {history}");
        locked(&self.failures).push(format!("{operation:?}: {what}"));
        Answer::Wrong
    }

    fn count(&self, operation: Operation, change: impl FnOnce(&mut Counts)) {
        change(locked(&self.counts).entry(operation).or_default());
    }

    pub fn counts(&self) -> BTreeMap<Operation, Counts> {
        locked(&self.counts).clone()
    }

    pub fn failures(&self) -> Vec<String> {
        locked(&self.failures).clone()
    }
}

/// A code as on the wire.
pub fn word(code: ApiErrorCode) -> String {
    serde_json::to_value(code).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
