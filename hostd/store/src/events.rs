//! Events of sandboxes: hostd's own, and those imported from each runtimed exactly once.

use super::{
    columns::{ColumnReader, exact, int, json},
    error::{During, Result, StoreError},
    exec_exits,
    handle::Store,
    limits,
    metrics::EndedExecs,
    query::{List, change},
    records::{EventRecord, SandboxRecord},
    sandbox_row::{load, owner_of},
};
use protocol::{
    Cursor, Event,
    api::{Label, Owner, SandboxId},
};
use rusqlite::{Connection, Row, params};
use serde_json::Value;
use tracing::warn;

/// Selects events; an absent field matches all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EventFilter {
    pub tenant: Option<Label>,
    /// Events of sandboxes of this principal of the tenant, and of those that are shared with it.
    pub principal: Option<Label>,
    pub sandbox: Option<SandboxId>,
    /// The row of a task: only events of its agent.
    pub task: Option<i64>,
    /// With `task`: also hostd's own events about the task.
    pub with_host_events: bool,
    /// Prefixes of the kind; empty for all kinds.
    pub kinds: Vec<String>,
}

impl EventFilter {
    /// Adds the condition that the principal may see the events. Both tables of the log have these columns.
    pub(super) fn and_visible(&self, wanted: &mut List) {
        match (&self.tenant, &self.principal) {
            (Some(tenant), Some(principal)) => wanted.and_all(
                "(principal = ? OR sandbox IN
                    (SELECT shares.sandbox FROM shares WHERE shares.tenant = ? AND grantee IN ('', ?)))",
                [principal.clone(), tenant.clone(), principal.clone()],
            ),
            (None, Some(principal)) => wanted.and_if("principal = ?", Some(String::from(principal.clone()))),
            (Some(_) | None, None) => {}
        }
    }
}

impl Store {
    /// Imports events of a sandbox's runtimed and returns the cursor up to which its log is imported. Events
    /// that are stored already are skipped, so any part of the log may be given again.
    pub async fn append_events(&self, id: &SandboxId, events: Vec<Event>) -> Result<Cursor> {
        let id = *id;
        let mut rest = events;
        loop {
            let later = rest.split_off(rest.len().min(limits::APPEND_MAX_EVENTS));
            let (followed, ended) = self.write("append_events", move |conn| append(conn, &id, &rest)).await?;
            ended.into_iter().for_each(|ended| self.metrics().count_exec_ends(ended));
            if later.is_empty() {
                return Ok(followed);
            }
            rest = later;
        }
    }

    /// Appends an event of hostd's own.
    pub async fn record_event(&self, id: &SandboxId, kind: &str, data: Value, now_ms: u64) -> Result<()> {
        let (id, kind) = (*id, kind.to_owned());
        self.write("record_event", move |conn| {
            let owner = owner_of(conn, &id)?;
            let event = NewEvent {
                sandbox: &id,
                owner: &owner,
                time_ms: now_ms,
                kind: &kind,
                origin: None,
                task: None,
                data,
            };
            insert(conn, &event).map(|_| ())
        })
        .await
    }

    /// Returns events of hostd and runtimed after a sequence number, oldest first, without events of tasks.
    #[cfg(any(test, feature = "test-support"))]
    pub async fn events(&self, filter: EventFilter, after: u64, limit: usize) -> Result<Vec<EventRecord>> {
        self.read(move |conn| list(conn, &filter, after, limit)).await
    }
}

pub(super) fn list(
    conn: &Connection,
    filter: &EventFilter,
    after: u64,
    limit: usize,
) -> Result<Vec<EventRecord>> {
    let mut wanted = List::from("SELECT * FROM events");
    wanted.and_if("seq > ?", Some(int(after)));
    let narrow = filter.task.is_some();
    wanted.and_if("task = ?", filter.task);
    wanted.and_if(if narrow { "+sandbox = ?" } else { "sandbox = ?" }, filter.sandbox.map(String::from));
    // A sandbox has fewer events than its tenant: the unary plus keeps SQLite off the index of the tenant.
    let tenant = if narrow || filter.sandbox.is_some() { "+tenant = ?" } else { "tenant = ?" };
    wanted.and_if(tenant, filter.tenant.clone().map(String::from));
    filter.and_visible(&mut wanted);
    wanted.and_any("instr(kind, ?) = 1", &filter.kinds);
    wanted.run(conn, "seq", limit, parse)
}

pub(super) struct NewEvent<'a> {
    pub sandbox: &'a SandboxId,
    pub owner: &'a Owner,
    pub time_ms: u64,
    pub kind: &'a str,
    pub origin: Option<Cursor>,
    /// The row of the task that the event is about.
    pub task: Option<i64>,
    pub data: Value,
}

impl<'a> NewEvent<'a> {
    /// An event of hostd's own about a sandbox that was just changed.
    pub(super) fn of_hostd(record: &'a SandboxRecord, kind: &'a str, data: Value) -> Self {
        let SandboxRecord { id, owner, updated_ms, .. } = record;
        Self { sandbox: id, owner, time_ms: *updated_ms, kind, origin: None, task: None, data }
    }
}

/// Inserts an event; returns whether it is new.
pub(super) fn insert(conn: &Connection, event: &NewEvent<'_>) -> Result<bool> {
    let sql = "INSERT INTO events (time_ms, sandbox, tenant, principal, project, kind, origin_epoch,
            origin_seq, task, data)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (sandbox, origin_epoch, origin_seq) WHERE origin_epoch IS NOT NULL DO NOTHING";
    let origin = event.origin.as_ref();
    let values = params![
        int(event.time_ms),
        event.sandbox.as_str(),
        event.owner.tenant.as_str(),
        event.owner.principal.as_str(),
        event.owner.project.as_str(),
        event.kind,
        origin.map(|origin| exact(origin.epoch, "the epoch of an event")).transpose()?,
        origin.map(|origin| exact(origin.seq, "the number of an event")).transpose()?,
        event.task,
        json(&event.data, "the event")?,
    ];
    Ok(change(conn, sql, values, "write an event")? > 0)
}

/// Imports events. Returns the cursor of the last one, and the execs that ended with them.
fn append(conn: &Connection, id: &SandboxId, events: &[Event]) -> Result<(Cursor, Vec<EndedExecs>)> {
    let record = load(conn, id)?;
    let mut ended = Vec::new();
    let mut followed = record.followed;
    for event in events {
        // The cursor comes from inside the sandbox and may be out of range.
        if i64::try_from(event.cursor.epoch.max(event.cursor.seq)).is_err() {
            warn!(sandbox = %id, cursor = %event.cursor, "dropped an event: its cursor is out of range");
            continue;
        }
        // Checked before the insert: an insert that does nothing would still consume a sequence number.
        if event.cursor > followed || !is_there(conn, id, event.cursor)? {
            ended.extend(import(conn, &record, event)?);
        }
        followed = followed.max(event.cursor);
    }
    if followed != record.followed {
        let sql = "UPDATE sandboxes SET followed_epoch = ?2, followed_seq = ?3 WHERE id = ?1";
        // Both fit: they were checked above.
        let values = params![id.as_str(), int(followed.epoch), int(followed.seq)];
        change(conn, sql, values, "write how far events were followed")?;
    }
    Ok((followed, ended))
}

/// Returns whether an event is stored, or was and is deleted: neither is imported again.
fn is_there(conn: &Connection, id: &SandboxId, origin: Cursor) -> Result<bool> {
    let sql = "SELECT 1 FROM events WHERE sandbox = ?1 AND origin_epoch = ?2 AND origin_seq = ?3
        UNION ALL SELECT 1 FROM sandboxes
        WHERE id = ?1 AND (trimmed_origin_epoch, trimmed_origin_seq) >= (?2, ?3)";
    let values = params![id.as_str(), int(origin.epoch), int(origin.seq)];
    conn.prepare_cached(sql).and_then(|mut statement| statement.exists(values)).during("find an event")
}

fn import(conn: &Connection, record: &SandboxRecord, event: &Event) -> Result<Option<EndedExecs>> {
    let mut data = serde_json::to_value(&event.fact).map_err(|_| StoreError::Unfit { what: "an event" })?;
    if let Some(fields) = data.as_object_mut() {
        // The kind has a column of its own.
        fields.remove("kind");
    }
    let new = NewEvent {
        sandbox: &record.id,
        owner: &record.owner,
        time_ms: event.time_ms,
        kind: event.fact.kind(),
        origin: Some(event.cursor),
        task: None,
        data,
    };
    if insert(conn, &new)? { exec_exits::apply_event(conn, record, event) } else { Ok(None) }
}

fn parse(row: &Row<'_>) -> Result<EventRecord> {
    let fields = ColumnReader { row, table: "events", key: "seq" };
    let origin = match (fields.maybe_number("origin_epoch")?, fields.maybe_number("origin_seq")?) {
        (Some(epoch), Some(seq)) => Some(Cursor { epoch, seq }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return Err(fields.wrong("origin_seq", &"epoch and number come together"));
        }
    };
    Ok(EventRecord {
        seq: fields.number("seq")?,
        time_ms: fields.number("time_ms")?,
        sandbox: fields.sandbox("sandbox")?,
        owner: fields.owner()?,
        kind: fields.get("kind")?,
        origin,
        task: fields.get("task")?,
        data: fields.json("data")?,
    })
}
