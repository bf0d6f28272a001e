//! One sandbox: what it is, what it uses, and what happened to it.

use super::{
    call::Call,
    error::E2bError,
    limits,
    view::{SandboxState, cpu_count, detail, state},
};
use crate::{e2b::record, respond};
use axum::response::Response;
use hostd_core::{parse_rfc3339, rfc3339};
use hyper::StatusCode;
use protocol::api::{ApiErrorCode, EventView, Page, SandboxView, StatsView};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Times larger than this are milliseconds: early SDKs send those.
const SECONDS_MAX: u64 = 100_000_000_000;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metric {
    timestamp: String,
    timestamp_unix: u64,
    cpu_count: u64,
    cpu_used_pct: f64,
    mem_used: u64,
    mem_total: u64,
    mem_cache: u64,
    disk_used: u64,
    disk_total: u64,
}

#[derive(Debug, Serialize)]
struct LogEntry {
    timestamp: String,
    message: String,
    level: &'static str,
    fields: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct LogLine {
    timestamp: String,
    line: String,
}

pub async fn get(call: &Call, id: &str) -> Result<Response, E2bError> {
    let view = call.sandbox(id).await?;
    let record = record::load(&call.clients, &view.id).await?;
    Ok(respond::json(StatusCode::OK, &detail(call, &view, &record)))
}

/// What the sandbox uses now, as the only sample; none while it is paused.
pub async fn metrics(call: &Call, id: &str) -> Result<Response, E2bError> {
    let view = call.sandbox(id).await?;
    let samples: Vec<Metric> = match state(&view) {
        SandboxState::Running if is_now_asked(call)? => sample(call, &view).await?.into_iter().collect(),
        SandboxState::Running | SandboxState::Paused | SandboxState::Gone => Vec::new(),
    };
    Ok(respond::json(StatusCode::OK, &samples))
}

fn is_now_asked(call: &Call) -> Result<bool, E2bError> {
    let ms = |time: u64| if time > SECONDS_MAX { time } else { time.saturating_mul(1_000) };
    let (start, end) = (call.query.number("start")?.map(ms), call.query.number("end")?.map(ms));
    let now_ms = call.now_ms();
    // A second of tolerance: the time of the caller is rounded.
    let is_after = start.is_none_or(|start_ms| start_ms <= now_ms.saturating_add(1_000));
    Ok(is_after && end.is_none_or(|end_ms| end_ms.saturating_add(1_000) >= now_ms))
}

async fn sample(call: &Call, view: &SandboxView) -> Result<Option<Metric>, E2bError> {
    let path = format!("/v1/sandboxes/{}/stats", view.id);
    let stats = async || match call.api.get::<StatsView>(&path).await {
        Ok(stats) => Ok(Some(stats)),
        Err(failure) if failure.error.code == ApiErrorCode::NotRunning => Ok(None),
        Err(failure) => Err(E2bError::from(failure)),
    };
    let Some(before) = stats().await? else { return Ok(None) };
    let since = Instant::now();
    sleep(Duration::from_millis(limits::CPU_SAMPLE_MS)).await;
    let Some(now) = stats().await? else { return Ok(None) };
    let now_ms = call.now_ms();
    Ok(Some(Metric {
        timestamp: rfc3339(now_ms),
        timestamp_unix: now_ms / 1_000,
        cpu_count: cpu_count(view),
        cpu_used_pct: cpu_used_pct(&before, &now, since.elapsed()),
        mem_used: now.memory_working_bytes,
        mem_total: now.memory_limit_bytes,
        mem_cache: now.memory_bytes.saturating_sub(now.memory_working_bytes),
        disk_used: now.disk_bytes.unwrap_or_default(),
        disk_total: now.disk_limit_bytes.unwrap_or_default(),
    }))
}

/// Of one core, as a percentage.
fn cpu_used_pct(before: &StatsView, now: &StatsView, elapsed: Duration) -> f64 {
    let used = Duration::from_micros(now.cpu_usage_us.saturating_sub(before.cpu_usage_us));
    let share = used.as_secs_f64() / elapsed.as_secs_f64().max(0.001);
    (share * 10_000.0).round() / 100.0
}

pub async fn log_lines(call: &Call, id: &str) -> Result<Response, E2bError> {
    let since_ms = call.query.number("start")?;
    let entries = entries(call, id, since_ms).await?;
    let line = |entry: &LogEntry| LogLine { timestamp: entry.timestamp.clone(), line: entry.message.clone() };
    let lines: Vec<LogLine> = entries.iter().map(line).collect();
    Ok(respond::json(StatusCode::OK, &serde_json::json!({"logs": lines, "logEntries": entries})))
}

pub async fn logs(call: &Call, id: &str) -> Result<Response, E2bError> {
    let entries = entries(call, id, call.query.number("cursor")?).await?;
    Ok(respond::json(StatusCode::OK, &serde_json::json!({"logs": entries})))
}

/// The events of a sandbox that are asked for, oldest first unless asked otherwise.
async fn entries(call: &Call, id: &str, cursor_ms: Option<u64>) -> Result<Vec<LogEntry>, E2bError> {
    let view = call.sandbox(id).await?;
    let is_backward = call.query.text("direction") == Some("backward");
    let level = call.query.text("level");
    let limit = call.query.number("limit")?.map_or(limits::LOG_LINES_MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX).min(limits::LOG_LINES_MAX)
    });
    let is_asked = |event: &EventView| {
        let time_ms = parse_rfc3339(&event.time).unwrap_or_default();
        cursor_ms
            .is_none_or(|cursor_ms| if is_backward { time_ms <= cursor_ms } else { time_ms >= cursor_ms })
    };
    let search = call.query.text("search").unwrap_or_default();
    let wanted = |entry: &LogEntry| {
        entry.message.contains(search)
            && level.is_none_or(|level| level == "debug" || level == "info" || level == entry.level)
    };
    let mut found = Excerpt::new(limit, is_backward);
    let mut after = String::new();
    while !found.is_complete() {
        let path = format!("/v1/sandboxes/{}/events?limit={}{after}", view.id, limits::OWN_PAGE);
        let page: Page<EventView> = call.api.get(&path).await?;
        page.items
            .iter()
            .filter(|event| is_asked(event))
            .map(entry)
            .filter(wanted)
            .for_each(|e| found.add(e));
        match page.next {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    Ok(found.into_entries())
}

/// The first entries of a log, or the last ones, newest first.
struct Excerpt {
    entries: VecDeque<LogEntry>,
    limit: usize,
    is_backward: bool,
}

impl Excerpt {
    fn new(limit: usize, is_backward: bool) -> Self {
        Self { entries: VecDeque::new(), limit, is_backward }
    }

    fn add(&mut self, entry: LogEntry) {
        if self.is_backward {
            self.entries.push_front(entry);
            self.entries.truncate(self.limit);
        } else if self.entries.len() < self.limit {
            self.entries.push_back(entry);
        }
    }

    /// Whether later entries change nothing.
    fn is_complete(&self) -> bool {
        self.limit == 0 || (!self.is_backward && self.entries.len() >= self.limit)
    }

    fn into_entries(self) -> Vec<LogEntry> {
        self.entries.into()
    }
}

fn entry(event: &EventView) -> LogEntry {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fields = event.data.as_object().into_iter().flatten();
    LogEntry {
        timestamp: event.time.clone(),
        message: event.kind.clone(),
        level: if event.kind.ends_with(".error") { "error" } else { "info" },
        fields: fields.map(|(name, value)| (name.clone(), text(value))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_has_the_first_entries_or_the_last_ones() {
        let entry = |number: u64| LogEntry {
            timestamp: String::new(),
            message: number.to_string(),
            level: "info",
            fields: BTreeMap::new(),
        };
        for (is_backward, limit, expected) in [
            (false, 2, "1 2"),
            (true, 2, "5 4"),
            (false, 9, "1 2 3 4 5"),
            (true, 9, "5 4 3 2 1"),
            (true, 0, ""),
        ] {
            let mut found = Excerpt::new(limit, is_backward);
            for number in 1..=5 {
                found.add(entry(number));
            }
            let texts: Vec<String> = found.into_entries().into_iter().map(|entry| entry.message).collect();
            assert_eq!(texts.join(" "), expected, "{is_backward} {limit}");
        }
    }
}
