//! Model calls: what the gateway observed of a call goes into the row of its task, its events and the usage
//! of its tenant in one transaction.

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
use hostd_core::{ModelActivity, ModelFailure, Spend, TaskLine};
use protocol::{ModelCall, ModelCallState, ModelFact, TaskFact, Usage};
use rusqlite::{Connection, params};

const WHAT: &str = "write a model call";

/// The end of a model call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallEnd {
    /// The row of its task.
    pub task: i64,
    pub call: ModelCall,
    /// Added to the usage of the tenant.
    pub used: Spend,
    pub verdict: Option<ModelFailure>,
    /// The call only counted tokens, so it says nothing about the success of the task.
    pub count_only: bool,
    /// hostd stopped during the call. Recorded by the next hostd, which may have done so before.
    pub interrupted: bool,
    pub time_ms: u64,
}

impl Store {
    /// Records the end of a call. Usage counts also after the end of the task; events are appended only
    /// before it.
    pub fn call_ended(&self, end: CallEnd) -> QueuedWrite<()> {
        self.post("call_ended", move |conn| ended(conn, &end))
    }

    /// Appends an event for a call that is tried again.
    pub fn call_retried(&self, task: i64, call: ModelCall, time_ms: u64) -> QueuedWrite<()> {
        self.post("call_retried", move |conn| {
            let task = by_number(conn, task)?;
            if task.done_seq.is_some() || call.call > limits::CALL_EVENTS_MAX {
                return Ok(());
            }
            task_events::append_own(conn, &task, &[call_event(time_ms, call)?])
        })
    }

    /// Records that the task cannot succeed any more. The first verdict stays; a task that was cancelled
    /// before gets none.
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
    TaskLine::own(time_ms, fact).map_err(|_| StoreError::Unfit { what: "a model call" })
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
    // A failure counts in the order in which calls began: an auxiliary call may end after the call it helped.
    // A success says that the model answers again, whenever the call began. An interrupted call ended after
    // all calls that hostd saw.
    if by_itself && !end.count_only && (call.call >= seen.last_call || !failed || end.interrupted) {
        seen.last_call = seen.last_call.max(call.call);
        let why = || call.error.clone().unwrap_or_else(|| "a model call failed".to_owned());
        seen.last_failure = failed.then(|| match call.provider.as_str() {
            // The call was rejected before it had a provider.
            "" => format!("a model call was refused: {}", why()),
            _ if end.interrupted => format!("a model call was interrupted: {}", why()),
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
        // A sum with an unknown part is unknown.
        cost_micro_usd: match (before.cost_micro_usd, more.cost_micro_usd) {
            (Some(before), Some(more)) => Some(before.saturating_add(more)),
            (_, more) if first => more,
            (None, _) | (_, None) => None,
        },
        estimated: before.estimated || more.estimated,
    }
}
