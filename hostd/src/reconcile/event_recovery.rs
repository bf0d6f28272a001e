//! Recovers the last events of a sandbox that does not run from the log files of its runtimed, however it ended. The
//! files were written from inside and are not trusted: invalid lines are left out.

use super::{FleetError, runtime_logs::RuntimeLogs, task_changes::recover_changes};
use bytes::Bytes;
use hostd_core::{TaskLine, limits};
use hostd_store::{Store, TaskRecord};
use protocol::{Cursor, Event, api::SandboxId, log_line::LogLine};
use std::{path::PathBuf, sync::Arc};

/// Stores the events that the store does not have yet: of the sandbox, and of its tasks without an end.
pub(super) async fn recover_events(
    store: &Store,
    logs: PathBuf,
    sandbox: &SandboxId,
) -> Result<(), FleetError> {
    let Some(record) = store.sandbox(sandbox).await? else { return Ok(()) };
    let logs = Arc::new(RuntimeLogs { logs });
    let mut followed = record.followed;
    for file in logs.clone().files("events".to_owned(), followed).await {
        let events = logs.clone().read(&file, move |line| event(line, followed)).await;
        if !events.is_empty() {
            followed = store.append_events(sandbox, events).await?;
        }
    }
    for task in store.open_tasks(Some(*sandbox)).await? {
        if task.taken {
            recover_task_events(store, &logs, task).await?;
        }
    }
    Ok(())
}

async fn recover_task_events(
    store: &Store,
    logs: &Arc<RuntimeLogs>,
    mut task: TaskRecord,
) -> Result<(), FleetError> {
    let after = Cursor { epoch: 0, seq: task.followed };
    for file in logs.clone().files(format!("tasks/{}", task.id), after).await {
        let mut last = task.followed;
        let lines = logs
            .clone()
            .read(&file, move |line| {
                if line.json.len() > limits::TASK_LINE_MAX_BYTES {
                    return None;
                }
                let line = TaskLine::parse(&Bytes::copy_from_slice(line.json.as_bytes())).ok()?;
                // Each number once, in order.
                let fresh = line.number > last;
                last = last.max(line.number);
                fresh.then_some(line)
            })
            .await;
        if let Some(first) = lines.first() {
            // Events before it were trimmed by runtimed, or torn: a notice takes their place.
            let lost = first.number.saturating_sub(task.followed + 1);
            recover_changes(store, logs, &task, &lines).await?;
            let gap = (lost > 0).then(|| TaskLine::gap(first.number - 1, first.time_ms, lost));
            let lines = gap.into_iter().chain(lines).collect();
            task = store.append_task(task.number, lines).await?;
        }
    }
    // It may have died between its changes and its end.
    if task.done_seq.is_none() {
        recover_changes(store, logs, &task, &[]).await?;
    }
    Ok(())
}

fn event(line: &LogLine<'_>, followed: Cursor) -> Option<Event> {
    if line.cursor <= followed || line.json.len() > limits::EVENT_MAX_BYTES {
        return None;
    }
    serde_json::from_str(line.json).ok().filter(|event: &Event| event.cursor == line.cursor)
}
