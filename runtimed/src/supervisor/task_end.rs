//! The end of a task: its last event, which is reported only once it is written. A failed write is retried,
//! and until then the task is not done.

use super::context::Context;
use super::jobs::JobId;
use super::task::{EndingTask, State, Task, TaskEnd, TaskEventLog};
use super::tasks::Tasks;
use crate::limits::{TASK_DONE_RESERVED_BYTES, TASK_END_RETRY_MS, TASK_WRITER_DIES_MS};
use crate::log::task_log;
use crate::sys::clock::{monotonic_ms, wall_ms};
use protocol::{Checkpoint, Exit, Fact, TaskFact, TaskId, TaskResult};
use std::io;

/// Length of error messages in a result.
pub const MESSAGE_MAX_CHARS: usize = 1_000;
/// Size of an event line beside the result.
const AROUND_RESULT_BYTES: u64 = 1 << 10;

impl Tasks {
    /// Ends the work of a task. The last event is written now, or when the killed `writer` is gone.
    pub fn finish(&mut self, context: &mut Context, id: &TaskId, result: TaskResult, writer: Option<JobId>) {
        let Some(task) = self.table.get_mut(id) else { return };
        let due = monotonic_ms() + writer.map_or(0, |_| TASK_WRITER_DIES_MS);
        // Dropping the old state ensures that nothing is written after the end.
        task.state =
            State::Ending(Box::new(EndingTask { result, ended_ms: wall_ms(), writer, due, refused: false }));
        self.ending.insert(id.clone());
        self.queue.retain(|queued| queued != id);
        self.active.take_if(|active| *active == *id);
        if writer.is_none() {
            self.end(context, id);
        }
    }

    /// Ends a task that waited for this shim to exit.
    pub fn end_after(&mut self, context: &mut Context, id: &TaskId, job: JobId) {
        let waited = self.table.get(id).is_some_and(|task| match &task.state {
            State::Ending(ending) => ending.writer == Some(job),
            State::Live(_) | State::Done(_) => false,
        });
        if waited {
            self.end(context, id);
        }
    }

    pub fn end_due(&mut self, context: &mut Context) {
        let now = monotonic_ms();
        let due: Vec<TaskId> =
            self.ending.iter().filter(|id| self.due(id).is_some_and(|due| due <= now)).cloned().collect();
        for id in due {
            self.end(context, &id);
        }
    }

    pub(super) fn next_end(&self) -> Option<u64> {
        self.ending.iter().filter_map(|id| self.due(id)).min()
    }

    fn due(&self, id: &TaskId) -> Option<u64> {
        match &self.table.get(id)?.state {
            State::Ending(ending) => Some(ending.due),
            State::Live(_) | State::Done(_) => None,
        }
    }

    fn end(&mut self, context: &mut Context, id: &TaskId) {
        let Some(task) = self.table.get_mut(id) else { return };
        task.raw_ends();
        let Task { state, events, .. } = task;
        let State::Ending(ending) = &mut *state else { return };
        if ending.writer.take().is_some() {
            events.grew(task_log::scan(&events.dir).last);
        }
        match record_end(context, id, events, ending) {
            Ok(ended) => {
                *state = State::Done(ended);
                self.ending.remove(id);
                self.finished.insert((ended.ended_ms, id.clone()));
                self.forget_old(context);
            }
            Err(error) => {
                ending.due = monotonic_ms() + TASK_END_RETRY_MS;
                if !std::mem::replace(&mut ending.refused, true) {
                    tracing::error!(task = %id, %error, "failed to record end of task; retrying");
                }
            }
        }
    }
}

/// Writes the end of a task, first to its events, then to the event log. Details are left out where the whole
/// result cannot be written.
pub fn record_end(
    context: &mut Context,
    id: &TaskId,
    events: &mut TaskEventLog,
    ending: &EndingTask,
) -> io::Result<TaskEnd> {
    let EndingTask { result, ended_ms, .. } = ending;
    let ended = TaskEnd { status: result.status, reason: result.failure_reason, ended_ms: *ended_ms };
    let last = events.head().last;
    let told = Some(context.events.next());
    let write = |result: TaskResult| {
        let fact = TaskFact::Done { result: Box::new(result), told };
        task_log::finish(&events.dir, last, fact, *ended_ms)
    };
    write(result.clone()).or_else(|_| write(without_details(result.clone())))?;
    events.measure();
    events.done(last + 1);
    context.record(ended_fact(id, ended));
    Ok(ended)
}

pub fn ended_fact(id: &TaskId, ended: TaskEnd) -> Fact {
    Fact::TaskEnded { task: id.clone(), status: ended.status, failure_reason: ended.reason }
}

/// Truncates a result to the reserved space. Names of files are dropped first: each was an event.
pub fn truncated_to_fit(mut result: TaskResult) -> TaskResult {
    if let Some(Exit::SpawnFailed { message }) = &mut result.exit {
        shorten(message);
    }
    if let Some(Exit::SpawnFailed { message }) = &mut result.build.exit {
        shorten(message);
    }
    if let Checkpoint::Unavailable { why } = &mut result.checkpoint {
        shorten(why);
    }
    if !fits(&result) {
        leave_out_files(&mut result);
    }
    if fits(&result) { result } else { without_details(result) }
}

fn fits(result: &TaskResult) -> bool {
    let bytes = serde_json::to_vec(result).map_or(u64::MAX, |json| json.len() as u64);
    bytes <= TASK_DONE_RESERVED_BYTES - AROUND_RESULT_BYTES
}

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MESSAGE_MAX_CHARS) {
        text.truncate(end);
    }
}

fn leave_out_files(result: &mut TaskResult) {
    if let Some(changes) = &mut result.files_changed {
        changes.truncated |= !changes.files.is_empty();
        changes.files.clear();
    }
}

/// The outcome without output and changed files.
fn without_details(mut result: TaskResult) -> TaskResult {
    leave_out_files(&mut result);
    result.final_message = None;
    result.agent_stderr = None;
    result.build.output = None;
    result
}

#[cfg(test)]
mod tests;
