//! A session that a connection has open: which tasks its editor is told of, how far, and which requests of the editor
//! they answer. In memory only: after a restart the editor resumes, and the log of events has the rest.

use super::{limits, prompt_end, rpc::RpcError, session_id::SessionId};
use protocol::TaskId;
use serde_json::Value;
use std::{
    collections::{HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

pub type PromptOutcome = Result<Value, RpcError>;

pub struct Attached {
    pub id: SessionId,
    state: Mutex<State>,
    changed: Notify,
    /// Prompts that are being stored as tasks.
    submitting: watch::Sender<usize>,
    /// Cancelled when the connection lets go of the session.
    pub ended: CancellationToken,
}

/// A task to tell of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    pub task: TaskId,
    /// Whether the editor was told of earlier events of it, on this connection or another.
    pub begun: bool,
}

#[derive(Default)]
struct State {
    /// The editor was told of all events up to this one.
    cursor: u64,
    /// Permissions that were asked for before the cursor are asked for again.
    asks_again: bool,
    /// Tasks in their order; the first is being told of.
    queue: VecDeque<Queued>,
    prompts: VecDeque<Prompt>,
    /// Ids of our permission requests that wait for the editor.
    asked: HashSet<String>,
}

/// A task that requests of the editor wait for.
struct Prompt {
    task: TaskId,
    requests: Vec<Value>,
    outcome: Option<PromptOutcome>,
}

/// A prompt that is being stored as a task, until dropped.
pub struct Submission<'a>(&'a Attached);

impl Drop for Submission<'_> {
    fn drop(&mut self) {
        self.0.submitting.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Attached {
    pub fn new(id: SessionId, ended: CancellationToken) -> Self {
        let submitting = watch::Sender::new(0);
        Self { id, state: Mutex::default(), changed: Notify::new(), submitting, ended }
    }

    /// Takes over the requests of the editor that wait in the session as it was opened before.
    pub fn take_over(&self, before: &Self) {
        let waiting: VecDeque<Prompt> = {
            let mut state = before.state();
            let prompts = std::mem::take(&mut state.prompts);
            prompts.into_iter().filter(|prompt| prompt.outcome.is_none()).collect()
        };
        self.state().prompts = waiting;
    }

    pub fn has_no_prompts(&self) -> bool {
        self.state().prompts.iter().all(|prompt| prompt.outcome.is_some())
    }

    pub fn is_waited_for(&self, task: &TaskId) -> bool {
        let state = self.state();
        state.prompts.iter().any(|prompt| prompt.task == *task && prompt.outcome.is_none())
    }

    /// Counts a prompt that is being stored: a cancellation that comes after it waits for it.
    pub fn begin_submission(&self) {
        self.submitting.send_modify(|count| *count += 1);
    }

    /// Ends the count of a prompt when dropped.
    pub fn submission(&self) -> Submission<'_> {
        Submission(self)
    }

    pub async fn submitted(&self) {
        // Fails only when the sender is gone, which is here.
        let _ = self.submitting.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Begins after this event, with these tasks before those that are queued already.
    pub fn restart(&self, cursor: u64, tasks: Vec<Queued>, asks_again: bool) {
        let mut state = self.state();
        state.cursor = cursor;
        state.asks_again = asks_again;
        let queued = std::mem::take(&mut state.queue);
        let planned: HashSet<TaskId> = tasks.iter().map(|queued| queued.task.clone()).collect();
        state.queue = tasks.into();
        state.queue.extend(queued.into_iter().filter(|queued| !planned.contains(&queued.task)));
        drop(state);
        self.changed.notify_waiters();
    }

    pub fn cursor(&self) -> u64 {
        self.state().cursor
    }

    pub fn advance(&self, seq: u64) {
        let mut state = self.state();
        state.cursor = state.cursor.max(seq);
    }

    pub fn asks_again(&self) -> bool {
        self.state().asks_again
    }

    /// Lets a request of the editor wait for the end of a task. Returns the outcome where the editor was told of the
    /// end already.
    pub fn expect(&self, task: &TaskId, request: Value) -> Option<PromptOutcome> {
        let mut state = self.state();
        if let Some(prompt) = state.prompts.iter_mut().find(|prompt| prompt.task == *task) {
            if prompt.outcome.is_some() {
                return prompt.outcome.clone();
            }
            if !prompt.requests.contains(&request) {
                prompt.requests.push(request);
            }
            return None;
        }
        state.prompts.push_back(Prompt { task: task.clone(), requests: vec![request], outcome: None });
        let excess = state.prompts.len().saturating_sub(limits::PROMPTS_REMEMBERED_MAX);
        state.prompts.drain(..excess);
        None
    }

    /// The task was not stored: no request waits for it.
    pub fn forget(&self, task: &TaskId) {
        self.state().prompts.retain(|prompt| prompt.task != *task);
    }

    /// Tells of a task, after those that are queued.
    pub fn enqueue(&self, queued: Queued) {
        let mut state = self.state();
        let ended = |prompt: &Prompt| prompt.task == queued.task && prompt.outcome.is_some();
        let is_known = state.queue.iter().any(|known| known.task == queued.task);
        if !is_known && !state.prompts.iter().any(ended) {
            state.queue.push_back(queued);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits for the task to tell of; it stays the first one until [`Self::finish`]. Safe to cancel.
    pub async fn next(&self) -> Queued {
        loop {
            let changed = self.changed.notified();
            if let Some(first) = self.state().queue.front().cloned() {
                return first;
            }
            changed.await;
        }
    }

    /// The requests that wait for the end of a task.
    pub fn waiting(&self, task: &TaskId) -> Vec<Value> {
        let state = self.state();
        let prompt = state.prompts.iter().find(|prompt| prompt.task == *task);
        prompt.map(|prompt| prompt.requests.clone()).unwrap_or_default()
    }

    /// The editor was told of the end of a task. Returns requests that came meanwhile and have no response.
    pub fn finish(&self, task: &TaskId, outcome: PromptOutcome, answered: &[Value]) -> Vec<Value> {
        let mut state = self.state();
        state.queue.retain(|queued| queued.task != *task);
        let Some(prompt) = state.prompts.iter_mut().find(|prompt| prompt.task == *task) else {
            return Vec::new();
        };
        prompt.outcome = Some(outcome);
        prompt.requests.iter().filter(|request| !answered.contains(request)).cloned().collect()
    }

    /// Ends all waiting requests as cancelled, and returns them.
    pub fn close(&self) -> Vec<Value> {
        self.ended.cancel();
        let mut state = self.state();
        state.queue.clear();
        let mut waiting = Vec::new();
        for prompt in state.prompts.iter_mut().filter(|prompt| prompt.outcome.is_none()) {
            waiting.append(&mut prompt.requests);
            prompt.outcome = Some(Ok(prompt_end::cancelled()));
        }
        waiting
    }

    /// The task that a request of the editor waits for.
    pub fn task_of(&self, request: &Value) -> Option<TaskId> {
        let state = self.state();
        let waits = |prompt: &&Prompt| prompt.outcome.is_none() && prompt.requests.contains(request);
        state.prompts.iter().find(waits).map(|prompt| prompt.task.clone())
    }

    pub fn asked(&self, id: String) {
        self.state().asked.insert(id);
    }

    /// Removes a permission request; whether it still waited for the editor.
    pub fn answered(&self, id: &str) -> bool {
        self.state().asked.remove(id)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::session_id::SessionNumber;
    use serde_json::json;

    fn attached() -> Attached {
        let sandbox = "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id");
        Attached::new(SessionNumber::derive("s").in_sandbox(sandbox), CancellationToken::new())
    }

    fn task(name: &str) -> TaskId {
        TaskId::parse(name).expect("an id")
    }

    #[test]
    fn every_request_of_a_task_gets_its_outcome_once() {
        let session = attached();
        assert_eq!(session.expect(&task("a"), json!(1)), None);
        session.enqueue(Queued { task: task("a"), begun: false });
        assert_eq!(session.expect(&task("a"), json!(2)), None, "the same prompt again");
        assert_eq!(session.task_of(&json!(2)), Some(task("a")));
        let waiting = session.waiting(&task("a"));
        assert_eq!(session.expect(&task("a"), json!(3)), None);
        let late = session.finish(&task("a"), Ok(json!("end")), &waiting);
        assert_eq!(late, [json!(3)], "it came between the response and the end");
        assert_eq!(session.expect(&task("a"), json!(4)), Some(Ok(json!("end"))));
        assert_eq!(session.task_of(&json!(2)), None);
    }

    #[tokio::test]
    async fn a_restart_tells_of_earlier_tasks_first_and_of_none_twice() {
        let session = attached();
        let queued = |name: &str, begun| Queued { task: task(name), begun };
        session.enqueue(queued("b", false));
        session.enqueue(queued("c", false));
        session.restart(7, vec![queued("a", true), queued("b", true)], true);
        assert!(session.asks_again() && session.cursor() == 7);
        for (name, begun) in [("a", true), ("b", true), ("c", false)] {
            assert_eq!(session.next().await, queued(name, begun));
            session.finish(&task(name), Ok(json!({})), &[]);
        }
    }
}
