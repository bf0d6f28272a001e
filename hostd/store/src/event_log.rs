//! The event log as it is sent to readers: events of hostd and runtimed from one table, events of tasks from
//! another, merged in the order of their sequence numbers.

use super::{
    columns::{ColumnReader, int},
    error::{During, Result},
    events::{self, EventFilter},
    handle::Store,
    limits,
    query::List,
    records::EventRecord,
    share_index::ShareIndex,
    task_events::newest_seq,
};
use bytes::Bytes;
use hostd_core::rfc3339;
use protocol::{
    TaskId,
    api::{EventView, Label, SandboxId},
};
use rusqlite::{Connection, Row};
use std::fmt::Write;

/// Consecutive events of one sandbox, serialised as SSE frames.
#[derive(Debug, Clone, PartialEq)]
pub struct EventBatch {
    pub first: u64,
    pub last: u64,
    pub sandbox: SandboxId,
    /// The row of the task that the events belong to or are about.
    pub task: Option<i64>,
    /// The events are hostd's own about the task, not events of its agent.
    pub host_event: bool,
    pub tenant: Label,
    pub principal: Label,
    /// The last event is the `done` of its task.
    pub ends: bool,
    pub frames: Bytes,
}

/// A part of the log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogPart {
    pub batches: Vec<EventBatch>,
    /// The sequence number up to which the log was read, including events that the filter left out.
    pub through: u64,
}

impl Store {
    /// Reads the log after a sequence number, up to the read limit.
    pub async fn log(&self, filter: EventFilter, after: u64) -> Result<LogPart> {
        self.read(move |conn| read(conn, &filter, after)).await
    }
}

pub(super) fn read(conn: &Connection, filter: &EventFilter, after: u64) -> Result<LogPart> {
    // A snapshot of both tables: an event committed between the two reads must not be skipped.
    let moment = conn.unchecked_transaction().during("read the log")?;
    read_at(&moment, filter, after)
}

/// Reads as [`read`] does, within a transaction.
pub(super) fn read_at(moment: &Connection, filter: &EventFilter, after: u64) -> Result<LogPart> {
    let mut through = newest_seq(moment)?;
    let mut batches = Vec::new();
    if filter.task.is_none() || filter.with_host_events {
        let records = events::list(moment, filter, after, limits::LIST_MAX_ROWS)?;
        if records.len() >= limits::LIST_MAX_ROWS {
            through = records.last().map_or(through, |record| record.seq);
        }
        batches.extend(records.iter().map(batch_of_event));
    }
    let (tasks, cut) = task_batches(moment, filter, after)?;
    if let Some(last) = tasks.last().filter(|_| cut) {
        through = through.min(last.last);
    }
    batches.extend(tasks);
    batches.retain(|batch| batch.last <= through);
    batches.sort_unstable_by_key(|batch| batch.first);
    Ok(LogPart { batches, through })
}

/// Reads batches of task events; the flag says whether there are more.
fn task_batches(conn: &Connection, filter: &EventFilter, after: u64) -> Result<(Vec<EventBatch>, bool)> {
    let mut wanted = List::from("SELECT * FROM task_events");
    // Rows do not overlap: the row that contains a number is the last one that begins at or before it.
    let from =
        "first >= coalesce((SELECT max(before.first) FROM task_events before WHERE before.first <= ?), 0)";
    wanted.and_if(from, Some(int(after)));
    wanted.and_if("last > ?", Some(int(after)));
    wanted.and_if("task = ?", filter.task);
    let narrow = filter.task.is_some();
    let sandbox = if narrow { "+sandbox = ?" } else { "sandbox = ?" };
    wanted.and_if(sandbox, filter.sandbox.map(String::from));
    let tenant = if narrow || filter.sandbox.is_some() { "+tenant = ?" } else { "tenant = ?" };
    wanted.and_if(tenant, filter.tenant.clone().map(String::from));
    filter.and_visible(&mut wanted);
    let mut bytes = 0;
    let (batches, cut) = wanted.run_while(conn, "first", parse, |batch: &EventBatch| {
        bytes += batch.frames.len();
        bytes < limits::LOG_READ_MAX_BYTES
    })?;
    Ok((batches, cut))
}

fn parse(row: &Row<'_>) -> Result<EventBatch> {
    let fields = ColumnReader { row, table: "task_events", key: "first" };
    let frames: Vec<u8> = fields.get("frames")?;
    Ok(EventBatch {
        first: fields.number("first")?,
        last: fields.number("last")?,
        sandbox: fields.sandbox("sandbox")?,
        task: Some(fields.get("task")?),
        host_event: false,
        tenant: fields.parsed("tenant")?,
        principal: fields.parsed("principal")?,
        ends: fields.get("ends")?,
        frames: frames.into(),
    })
}

fn batch_of_event(record: &EventRecord) -> EventBatch {
    EventBatch {
        first: record.seq,
        last: record.seq,
        sandbox: record.sandbox,
        task: record.task,
        host_event: record.task.is_some(),
        tenant: record.owner.tenant.clone(),
        principal: record.owner.principal.clone(),
        ends: false,
        frames: frame(record),
    }
}

fn frame(record: &EventRecord) -> Bytes {
    let view = EventView {
        seq: record.seq,
        time: rfc3339(record.time_ms),
        sandbox: record.sandbox,
        task: record.task.and_then(|_| task_of(record)),
        kind: record.kind.clone(),
        origin: record.origin,
        data: record.data.clone(),
        fact: serde_json::Map::new(),
    };
    // Serialised JSON has no line breaks, so it fits on one `data:` line.
    let data = serde_json::to_string(&view).unwrap_or_default();
    let mut text = String::with_capacity(data.len() + 64);
    let _ = write!(text, "id: {}\nevent: {}\ndata: {data}\n\n", record.seq, record.kind);
    text.into()
}

/// Returns the task that an egress event names.
fn task_of(record: &EventRecord) -> Option<TaskId> {
    TaskId::parse(record.data["by"]["task"].as_str()?).ok()
}

impl EventFilter {
    /// Returns whether the filter lets the batch through, as sandboxes are shared now; kinds are filtered per frame by
    /// [`EventBatch::select`].
    pub fn admits(&self, batch: &EventBatch, shares: &ShareIndex) -> bool {
        let shared =
            |principal| shares.of(&batch.sandbox).iter().any(|share| share.grantee.includes(principal));
        self.tenant.as_ref().is_none_or(|tenant| *tenant == batch.tenant)
            && self
                .principal
                .as_ref()
                .is_none_or(|principal| *principal == batch.principal || shared(principal))
            && self.sandbox.is_none_or(|sandbox| sandbox == batch.sandbox)
            && self
                .task
                .is_none_or(|task| Some(task) == batch.task && (self.with_host_events || !batch.host_event))
    }
}

impl EventBatch {
    /// Returns the frames after a sequence number whose kind starts with one of `kinds`; all kinds when
    /// empty. Shares the buffer where nothing is left out.
    pub fn select(&self, after: u64, kinds: &[String]) -> Bytes {
        let rest = self.after(after);
        if kinds.is_empty() || rest.is_empty() {
            return rest;
        }
        let mut chosen = Vec::new();
        for frame in frames(&rest) {
            let kind = kind_of(frame);
            if kinds.iter().any(|wanted| kind.starts_with(wanted.as_bytes())) {
                chosen.extend_from_slice(frame);
            }
        }
        chosen.into()
    }

    fn after(&self, after: u64) -> Bytes {
        if after < self.first {
            return self.frames.clone();
        }
        // Sequence numbers within a batch are consecutive.
        let skipped = usize::try_from(after - self.first + 1).unwrap_or(usize::MAX);
        let bytes: usize = frames(&self.frames).take(skipped).map(<[u8]>::len).sum();
        self.frames.slice(bytes..)
    }
}

/// Splits a buffer into frames, each with the empty line that ends it.
fn frames(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        const END: &[u8] = b"\n\n";
        let end = memchr::memmem::find(rest, END)? + END.len();
        let (frame, later) = rest.split_at(end);
        rest = later;
        Some(frame)
    })
}

/// Returns the `data` field of each frame.
pub fn frame_data(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    frames(bytes).filter_map(|frame| field(frame, b"data: "))
}

fn kind_of(frame: &[u8]) -> &[u8] {
    field(frame, b"event: ").unwrap_or_default()
}

fn field<'a>(frame: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    frame.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> EventBatch {
        let frame = |id: u64, kind: &str| format!("id: {id}\nevent: {kind}\ndata: {{\"n\":{id}}}\n\n");
        let frames: String =
            [(5, "status"), (6, "message"), (7, "log")].map(|(id, kind)| frame(id, kind)).concat();
        EventBatch {
            first: 5,
            last: 7,
            sandbox: "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id"),
            task: Some(1),
            host_event: false,
            tenant: Label::parse("t").expect("a label"),
            principal: Label::parse("p").expect("a label"),
            ends: false,
            frames: frames.into(),
        }
    }

    fn numbers(bytes: &[u8]) -> Vec<String> {
        frame_data(bytes).map(|data| String::from_utf8_lossy(data).into_owned()).collect()
    }

    #[test]
    fn what_was_seen_is_left_out() {
        let batch = batch();
        assert_eq!(batch.select(0, &[]).as_ptr(), batch.frames.as_ptr(), "shared, not copied");
        for (after, expected) in [(4, 3), (5, 2), (6, 1), (7, 0), (99, 0)] {
            assert_eq!(numbers(&batch.select(after, &[])).len(), expected, "after {after}");
        }
        assert_eq!(numbers(&batch.select(5, &[])), ["{\"n\":6}", "{\"n\":7}"]);
    }

    #[test]
    fn kinds_are_chosen_by_how_they_begin() {
        let kinds = ["st".to_owned(), "log".to_owned()];
        assert_eq!(numbers(&batch().select(0, &kinds)), ["{\"n\":5}", "{\"n\":7}"]);
        assert_eq!(numbers(&batch().select(5, &kinds)), ["{\"n\":7}"]);
        assert!(batch().select(0, &["data".to_owned()]).is_empty());
    }
}
