//! Recovers tasks that an earlier boot left.

use super::context::Context;
use super::output_log::OutputLog;
use super::task::{self, DoneEvent, EndingTask, START, Start, State, Task, TaskEnd, TaskEventLog, TaskHead};
use super::task_end::{ended_fact, record_end};
use crate::log::task_log;
use crate::sys::clock::{monotonic_ms, wall_ms};
use protocol::{
    Checkpoint, Cursor, Durations, FailureReason, HealthOutcome, HealthStatus, TaskId, TaskPhase, TaskResult,
    TaskStatus,
};
use serde::Deserialize;
use std::path::PathBuf;

/// Recovers a task from its directory; `None` where its record cannot be read.
pub fn recover(context: &mut Context, id: TaskId, dir: PathBuf) -> Option<Task> {
    let start: Start = serde_json::from_slice(&std::fs::read(dir.join(START)).ok()?).ok()?;
    let scan = task_log::scan(&dir);
    let done = task::read_done(&dir, &scan.segments);
    let head = TaskHead { last: scan.last, done: done.is_some() };
    let raw = OutputLog::existing(task::raw_dir(&dir));
    let changes = OutputLog::existing(task::changes_dir(&dir));
    let mut events = TaskEventLog::new(dir, scan.segments, head);
    let (state, durations) = match done {
        Some(DoneEvent { ended_ms, result, told }) => {
            let ended = TaskEnd { status: result.status, reason: result.failure_reason, ended_ms };
            if is_unreported(told, context.events.before()) {
                context.record(ended_fact(&id, ended));
            }
            (State::Done(ended), result.durations)
        }
        None => {
            let result = lost_result(&start, &events);
            let durations = result.durations;
            let ending =
                EndingTask { result, ended_ms: wall_ms(), writer: None, due: monotonic_ms(), refused: true };
            let state = match record_end(context, &id, &mut events, &ending) {
                Ok(ended) => State::Done(ended),
                Err(error) => {
                    tracing::error!(task = %id, %error, "failed to record end of task; retrying");
                    State::Ending(Box::new(ending))
                }
            };
            (state, durations)
        }
    };
    // A task that was queued until its end never started.
    let began = durations.queued_ms < durations.total_ms;
    let started_ms = began.then(|| start.created_ms.saturating_add(durations.queued_ms));
    let mut task = Task { id, start, started_ms, events, raw, changes, state };
    task.raw_ends();
    task.changes_end();
    Some(task)
}

/// Whether the event that reports an end is missing from the event log.
fn is_unreported(told: Option<Cursor>, last: Option<Cursor>) -> bool {
    told.zip(last).is_some_and(|(told, last)| told > last)
}

/// The fields that are read of a `status` event.
#[derive(Deserialize)]
struct PhaseLine {
    time_ms: u64,
    phase: TaskPhase,
    #[serde(default)]
    checkpoint: Option<Checkpoint>,
}

/// The result of a task that was lost with the sandbox.
fn lost_result(start: &Start, events: &TaskEventLog) -> TaskResult {
    let total_ms = wall_ms().saturating_sub(start.created_ms);
    let phases: Vec<PhaseLine> = task_log::of_kind(&events.dir, events.oldest(), "status");
    let began = phases.iter().find(|line| line.phase == TaskPhase::Preparing);
    let queued_ms = began.map_or(total_ms, |line| line.time_ms.saturating_sub(start.created_ms));
    let checkpoint = phases.into_iter().find_map(|line| line.checkpoint);
    let unknown = || Checkpoint::Unavailable { why: "the sandbox died before there was one".to_owned() };
    TaskResult {
        status: TaskStatus::Failed,
        failure_reason: Some(FailureReason::Lost),
        message: Some("the sandbox died while the task was queued or running".to_owned()),
        exit: None,
        hints: Vec::new(),
        final_message: None,
        agent_stderr: None,
        files_changed: None,
        build: task::no_build(),
        health: HealthOutcome { status: HealthStatus::Unknown, unready: Vec::new() },
        usage: None,
        models: Vec::new(),
        session: None,
        durations: Durations { queued_ms: queued_ms.min(total_ms), total_ms, ..Durations::default() },
        checkpoint: checkpoint.unwrap_or_else(unknown),
    }
}
