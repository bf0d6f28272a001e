//! Calls of models: what the gateway saw of a task goes into its row, its events and the sums of its tenant
//! together, or not at all.

use super::{
    columns::json,
    error::{Result, StoreError},
    handle::{QueuedWrite, Store},
    limits, model_budgets,
    query::change,
    records::TaskRecord,
    task_events,
    tasks::by_number,
};
use crate::core::{ModelActivity, ModelFailure, Spend, TaskLine};
use protocol::{ModelCall, ModelCallState, ModelFact, TaskFact, Usage};
use rusqlite::{Connection, params};

const WHAT: &str = "write a call of a model";

/// A call that has ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallEnd {
    /// The row of its task.
    pub task: i64,
    pub call: ModelCall,
    /// For the sums of its tenant.
    pub used: Spend,
    pub verdict: Option<ModelFailure>,
    /// It made nothing, so nothing is judged by it.
    pub count_only: bool,
    /// hostd itself went away in the middle of it: told by the next one, which may have done so before.
    pub interrupted: bool,
    pub time_ms: u64,
}

impl Store {
    /// Counted also when the task has ended meanwhile; told only while it has not.
    pub fn call_ended(&self, end: CallEnd) -> QueuedWrite<()> {
        self.post("call_ended", move |conn| ended(conn, &end))
    }

    /// It is tried again: only told.
    pub fn call_retried(&self, task: i64, call: ModelCall, time_ms: u64) -> QueuedWrite<()> {
        self.post("call_retried", move |conn| {
            let task = by_number(conn, task)?;
            if task.done_seq.is_some() || call.call > limits::CALL_EVENTS_MAX {
                return Ok(());
            }
            task_events::append_own(conn, &task, &[call_event(time_ms, call)?])
        })
    }

    /// The task cannot succeed any more. The first verdict stays; a task whose end somebody asked for before gets
    /// none.
    pub fn judge_task(&self, task: i64, verdict: ModelFailure) -> QueuedWrite<()> {
        self.post("judge_task", move |conn| set_verdict(conn, task, &verdict))
    }
}

fn ended(conn: &Connection, end: &CallEnd) -> Result<()> {
    let task = by_number(conn, end.task)?;
    if end.interrupted && task.seen.has_ended(end.call.call) {
        return Ok(());
    }
    model_budgets::count(conn, &task.owner.tenant, end.used, end.time_ms)?;
    if task.done_seq.is_some() {
        return Ok(());
    }
    let seen = with_call(task.seen.clone(), end);
    let sql = "UPDATE tasks SET model_seen = ?2 WHERE number = ?1";
    change(conn, sql, params![end.task, json(&seen, "what was seen")?], WHAT)?;
    if let Some(verdict) = &end.verdict {
        set_verdict(conn, end.task, verdict)?;
    }
    append_call_events(conn, &task, &seen, end)
}

fn set_verdict(conn: &Connection, task: i64, verdict: &ModelFailure) -> Result<()> {
    let sql = "UPDATE tasks SET model_verdict = ?2
        WHERE number = ?1 AND model_verdict IS NULL AND cancelling = 0 AND done_seq IS NULL";
    change(conn, sql, params![task, json(verdict, "the verdict")?], WHAT).map(|_| ())
}

fn append_call_events(
    conn: &Connection,
    task: &TaskRecord,
    seen: &ModelActivity,
    end: &CallEnd,
) -> Result<()> {
    let mut lines = Vec::new();
    if end.call.call <= limits::CALL_EVENTS_MAX {
        lines.push(call_event(end.time_ms, end.call.clone())?);
        if let Some(usage) = seen.usage {
            lines.push(line(end.time_ms, &TaskFact::Usage { usage })?);
        }
    }
    task_events::append_own(conn, task, &lines)
}

fn call_event(time_ms: u64, call: ModelCall) -> Result<TaskLine> {
    line(time_ms, &TaskFact::Model(Box::new(ModelFact::Seen(call))))
}

fn line(time_ms: u64, fact: &TaskFact) -> Result<TaskLine> {
    TaskLine::own(time_ms, fact).map_err(|_| StoreError::Unfit { what: "a call of a model" })
}

fn with_call(mut seen: ModelActivity, end: &CallEnd) -> ModelActivity {
    let call = &end.call;
    let before = seen.usage.unwrap_or_default();
    let of_call = call.usage.unwrap_or_default();
    seen.usage = Some(sum(before, &of_call, call));
    seen.record_end(call.call);
    if !end.count_only {
        seen.record_model(&call.provider, &call.model);
    }
    let by_itself = match call.state {
        ModelCallState::Succeeded | ModelCallState::Failed => true,
        ModelCallState::Abandoned | ModelCallState::Retrying => false,
    };
    let failed = call.state == ModelCallState::Failed;
    // A failure by the order in which they began: one that helped another may end after it. A success says that
    // the model answers after all, whenever it began.
    // And what hostd itself cut off ended after all that it saw.
    if by_itself && !end.count_only && (call.call >= seen.last_call || !failed || end.interrupted) {
        seen.last_call = seen.last_call.max(call.call);
        let why = || call.error.clone().unwrap_or_else(|| "a call of its model failed".to_owned());
        seen.last_failure = failed.then(|| match call.provider.as_str() {
            // Nobody was asked.
            "" => format!("a call of its model was refused: {}", why()),
            _ if end.interrupted => format!("a call of its model was cut off: {}", why()),
            provider => format!("the model provider {provider} failed: {}", why()),
        });
    }
    seen
}

fn sum(before: Usage, more: &Usage, call: &ModelCall) -> Usage {
    let first = before.calls == 0;
    Usage {
        input_tokens: before.input_tokens.saturating_add(more.input_tokens),
        output_tokens: before.output_tokens.saturating_add(more.output_tokens),
        cache_read_tokens: before.cache_read_tokens.saturating_add(more.cache_read_tokens),
        cache_write_tokens: before.cache_write_tokens.saturating_add(more.cache_write_tokens),
        reasoning_tokens: before.reasoning_tokens.saturating_add(more.reasoning_tokens),
        calls: before.calls.saturating_add(1),
        retries: before.retries.saturating_add(u64::from(call.attempt.saturating_sub(1))),
        failed_calls: before.failed_calls.saturating_add(u64::from(call.state == ModelCallState::Failed)),
        // A sum with a part that nobody knows is not known.
        cost_micro_usd: match (before.cost_micro_usd, more.cost_micro_usd) {
            (Some(before), Some(more)) => Some(before.saturating_add(more)),
            (_, more) if first => more,
            _ => None,
        },
        estimated: before.estimated || more.estimated,
    }
}
