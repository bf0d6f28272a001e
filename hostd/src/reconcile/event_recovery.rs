//! What a sandbox that is gone left in its logs, taken over from the files: whatever runtimed wrote down
//! before it ended is kept, however it ended. All of it was written from inside: what makes no sense is left
//! out.

use super::{FleetError, runtime_logs::RuntimeLogs};
use crate::{
    core::TaskLine,
    limits,
    store::{Store, TaskRecord},
};
use bytes::Bytes;
use protocol::{Cursor, Event, api::SandboxId, log_line::LogLine};
use std::{path::PathBuf, sync::Arc};

/// Takes over what is not in the store yet: events of the sandbox, and of its tasks that have no end.
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
                // In order, each once.
                let fresh = line.number > last;
                last = last.max(line.number);
                fresh.then_some(line)
            })
            .await;
        if let Some(first) = lines.first() {
            // Trimmed by runtimed, or torn: said in its place.
            let lost = first.number.saturating_sub(task.followed + 1);
            let gap = (lost > 0).then(|| TaskLine::gap(first.number - 1, first.time_ms, lost));
            let lines = gap.into_iter().chain(lines).collect();
            task = store.append_task(task.number, lines).await?;
        }
    }
    Ok(())
}

fn event(line: &LogLine<'_>, followed: Cursor) -> Option<Event> {
    if line.cursor <= followed || line.json.len() > limits::EVENT_MAX_BYTES {
        return None;
    }
    serde_json::from_str(line.json).ok().filter(|event: &Event| event.cursor == line.cursor)
}
