//! Events of a task: from the line that runtimed wrote to the SSE frame that clients get.
//!
//! Nearly all of a line goes out as it came in, so it is checked and not rebuilt: it must be one JSON object of a
//! known kind, without a field that hostd adds and without a line break.

use super::{rfc3339, task_changes::is_commit, valid_json::ValidJson};
use bytes::Bytes;
use protocol::{Checkpoint, PermissionState, TaskEvent, TaskFact, TaskPhase, TaskResult};
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use std::{borrow::Cow, fmt::Write as _, io::Write as _};

const KINDS: [&str; 12] = [
    "status",
    "message",
    "thought",
    "tool",
    "file",
    "plan",
    "permission",
    "model",
    "build",
    "usage",
    "log",
    "done",
];

#[derive(Debug, Clone, PartialEq)]
pub struct TaskLine {
    /// The number of the event among those of the task in runtimed, from 1; 0 for an event of hostd.
    pub number: u64,
    pub time_ms: u64,
    pub kind: &'static str,
    /// The fields of the fact: the inside of a JSON object.
    fields: Bytes,
    pub update: TaskUpdate,
    /// The checkpoint of the task, reported before its agent begins, and once more at the end.
    pub checkpoint: Option<String>,
}

/// The change that an event makes to the record of its task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskUpdate {
    None,
    Phase(TaskPhase),
    /// The agent waits for the permission with this id.
    PermissionAsked(String),
    /// The permission with this id is decided, or withdrawn.
    PermissionDecided(String),
    Done(Box<TaskResult>),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad event of a task: {0}")]
pub struct BadTaskLine(String);

/// The fields that every event has, and the names that are reserved for hostd.
#[derive(Deserialize)]
struct Head<'a> {
    seq: u64,
    time_ms: u64,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    phase: Option<TaskPhase>,
    #[serde(default, rename = "time")]
    _time: ReservedName,
    #[serde(default, rename = "sandbox")]
    _sandbox: ReservedName,
    #[serde(default, rename = "task")]
    _task: ReservedName,
    #[serde(default, rename = "number")]
    _number: ReservedName,
    #[serde(default, rename = "kind")]
    _kind: ReservedName,
}

/// The fields that are read of a permission.
#[derive(Deserialize)]
struct PermissionEvent<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    state: PermissionState,
}

/// The change that a permission makes to the record of its task; none where runtimed gives no such ids.
fn permission_update(line: &[u8]) -> Result<TaskUpdate, serde_json::Error> {
    const ID_MAX_BYTES: usize = 32;
    let PermissionEvent { id, state } = serde_json::from_slice(line)?;
    if id.is_empty() || id.len() > ID_MAX_BYTES || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(TaskUpdate::None);
    }
    Ok(match state {
        PermissionState::Asked => TaskUpdate::PermissionAsked(id.into_owned()),
        PermissionState::Allowed | PermissionState::Denied | PermissionState::Withdrawn => {
            TaskUpdate::PermissionDecided(id.into_owned())
        }
    })
}

/// The fields that are read of a status.
#[derive(Deserialize)]
struct StatusEvent {
    #[serde(default)]
    checkpoint: Option<Checkpoint>,
}

fn commit(checkpoint: Option<&Checkpoint>) -> Option<String> {
    match checkpoint? {
        Checkpoint::Taken { id, .. } => Some(id.clone()).filter(|id| is_commit(id)),
        Checkpoint::Unavailable { .. } => None,
    }
}

/// A field that only hostd adds. A line that has it already is refused.
#[derive(Default)]
struct ReservedName;

impl<'de> Deserialize<'de> for ReservedName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer)?;
        Err(serde::de::Error::custom("it has a field that only hostd adds"))
    }
}

impl TaskLine {
    pub fn parse(line: &Bytes) -> Result<Self, BadTaskLine> {
        let bad = |error: serde_json::Error| BadTaskLine(error.to_string());
        // Fields that go out unread must be readable by clients.
        let ValidJson = serde_json::from_slice(line).map_err(bad)?;
        let head: Head<'_> = serde_json::from_slice(line).map_err(bad)?;
        let kind = KINDS.iter().find(|kind| **kind == head.kind);
        let kind = *kind.ok_or_else(|| BadTaskLine("its kind is unknown".to_owned()))?;
        let Head { seq: number, time_ms, phase, .. } = head;
        if kind == "done" {
            let event: TaskEvent = serde_json::from_slice(line).map_err(bad)?;
            let TaskFact::Done { result, .. } = event.fact else {
                return Err(BadTaskLine("a done without a result".to_owned()));
            };
            if !result.status.is_final() {
                return Err(BadTaskLine("a done that is no end".to_owned()));
            }
            return Self::done(number, time_ms, result).map_err(bad);
        }
        let update = match (kind, phase) {
            ("status", Some(phase)) => TaskUpdate::Phase(phase),
            // A later runtimed may have other fields here.
            ("permission", _) => permission_update(line).unwrap_or(TaskUpdate::None),
            _ => TaskUpdate::None,
        };
        // A later runtimed may have other fields here.
        let status = (kind == "status").then(|| serde_json::from_slice::<StatusEvent>(line).ok()).flatten();
        let checkpoint = commit(status.and_then(|status| status.checkpoint).as_ref());
        let fields = match plain_fields(line, number, time_ms, kind) {
            Some(fields) => fields,
            None => other_fields(line).map_err(bad)?,
        };
        Ok(Self { number, time_ms, kind, fields, update, checkpoint })
    }

    /// The last event of a task.
    pub fn done(number: u64, time_ms: u64, result: Box<TaskResult>) -> Result<Self, serde_json::Error> {
        let fields = format!("\"result\":{}", serde_json::to_string(&result)?);
        let checkpoint = commit(Some(&result.checkpoint));
        let (kind, fields, update) = ("done", fields.into(), TaskUpdate::Done(result));
        Ok(Self { number, time_ms, kind, fields, update, checkpoint })
    }

    /// An event of hostd itself.
    pub fn own(time_ms: u64, fact: &TaskFact) -> Result<Self, serde_json::Error> {
        let fields = other_fields(serde_json::to_string(fact)?.as_bytes())?;
        let (kind, update) = (fact.kind(), TaskUpdate::None);
        Ok(Self { number: 0, time_ms, kind, fields, update, checkpoint: None })
    }

    /// A notice that the events before this one were trimmed before hostd read them.
    pub fn gap(number: u64, time_ms: u64, lost: u64) -> Self {
        let fields = format!(
            "\"stream\":\"stderr\",\"text\":\"{lost} events were trimmed before they were taken over\",\
             \"lost_events\":{lost}"
        );
        let (fields, update) = (fields.into(), TaskUpdate::None);
        Self { number, time_ms, kind: "log", fields, update, checkpoint: None }
    }

    /// A notice in the place of output beyond the limit, of which nothing is kept.
    pub fn full(instead_of: &Self, max_bytes: u64) -> Self {
        let fields = format!(
            "\"stream\":\"stderr\",\"text\":\"{} MiB of output are kept; what the agent prints from here on is not\"",
            max_bytes >> 20
        );
        Self { kind: "log", fields: fields.into(), update: TaskUpdate::None, ..instead_of.clone() }
    }

    /// Whether an agent can produce any number of such events. A permission is none: a client that does not see it
    /// cannot answer, and the agent waits until then.
    pub fn is_output(&self) -> bool {
        !matches!(self.kind, "status" | "file" | "permission" | "build" | "usage" | "done")
    }

    /// The approximate size of the frame.
    pub fn frame_bytes(&self) -> usize {
        const AROUND: usize = 200;
        self.fields.len() + AROUND
    }
}

/// The fields of a line in the spelling of runtimed, as a slice; `None` for another spelling.
fn plain_fields(line: &Bytes, number: u64, time_ms: u64, kind: &str) -> Option<Bytes> {
    const CLOSE: usize = 1;
    let mut known = String::with_capacity(80);
    let _ = write!(known, "{{\"seq\":{number},\"time_ms\":{time_ms},\"type\":\"{kind}\"");
    let rest = line.strip_prefix(known.as_bytes())?;
    let fields = rest.strip_suffix(b"}")?;
    let fields = if fields.is_empty() { fields } else { fields.strip_prefix(b",")? };
    // JSON may have line breaks between its parts; a frame may not.
    let one_line = !fields.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
    one_line.then(|| line.slice(line.len() - CLOSE - fields.len()..line.len() - CLOSE))
}

/// The fields of a line in any spelling, written anew.
fn other_fields(line: &[u8]) -> Result<Bytes, serde_json::Error> {
    let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(line)?;
    for name in ["seq", "time_ms", "type"] {
        object.remove(name);
    }
    let text = serde_json::to_string(&object)?;
    Ok(Bytes::copy_from_slice(&text.as_bytes()[1..text.len() - 1]))
}

/// Writes the frames of one task's events.
pub struct TaskFrames<'a> {
    sandbox: &'a str,
    task: &'a str,
    /// The newest time and its text: many events in a row have the same time.
    time: (u64, String),
    out: Vec<u8>,
}

impl<'a> TaskFrames<'a> {
    pub fn new(sandbox: &'a str, task: &'a str) -> Self {
        Self { sandbox, task, time: (0, rfc3339(0)), out: Vec::new() }
    }

    pub fn push(&mut self, seq: u64, line: &TaskLine) {
        if self.time.0 != line.time_ms {
            self.time = (line.time_ms, rfc3339(line.time_ms));
        }
        let TaskLine { number, kind, fields, .. } = line;
        let Self { sandbox, task, time: (_, time), out } = self;
        let comma = if fields.is_empty() { "" } else { "," };
        let written = write!(
            out,
            "id: {seq}\nevent: {kind}\ndata: {{\"seq\":{seq},\"time\":\"{time}\",\"sandbox\":\"{sandbox}\",\
             \"task\":\"{task}\","
        );
        written.expect("memory takes every byte");
        if *number > 0 {
            write!(out, "\"number\":{number},").expect("memory takes every byte");
        }
        write!(out, "\"kind\":\"{kind}\"{comma}").expect("memory takes every byte");
        out.extend_from_slice(fields);
        out.extend_from_slice(b"}\n\n");
    }

    pub fn len(&self) -> usize {
        self.out.len()
    }

    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Text, api::TaskEventView};

    fn parse(text: &str) -> Result<TaskLine, BadTaskLine> {
        TaskLine::parse(&Bytes::copy_from_slice(text.as_bytes()))
    }

    fn frame(line: &TaskLine) -> (String, TaskEventView) {
        let mut frames = TaskFrames::new("01jb9xyzabcdefghjkmnpqrstv", "t1");
        frames.push(7, line);
        let text = String::from_utf8(frames.take()).expect("text");
        let data = text.strip_suffix("\n\n").expect("a frame").lines().nth(2).expect("data");
        let view = serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
        (text, view)
    }

    #[test]
    fn a_line_of_runtimed_goes_out_as_it_came() {
        let text = Text { text: "a \"line\"\r\n\u{2028}".to_owned(), ..Text::default() };
        let event = TaskEvent { seq: 3, time_ms: 1_000, fact: TaskFact::Message(text) };
        let line = parse(&serde_json::to_string(&event).expect("JSON")).expect("a good line");
        let (text, view) = frame(&line);
        assert!(
            text.starts_with("id: 7\nevent: message\ndata: {\"seq\":7,\"time\":\"1970-01-01T00:00:01.000Z\"")
        );
        assert_eq!(text.matches('\n').count(), 4);
        assert!(!text.contains('\r'));
        assert_eq!((view.seq, view.number, view.kind.as_str()), (7, Some(3), "message"));
        assert_eq!(view.fact["text"], "a \"line\"\r\n\u{2028}");
        assert_eq!(view.fact.len(), 1);
    }

    #[test]
    fn an_event_of_hostd_has_no_number() {
        let usage = protocol::Usage { input_tokens: 5, ..Default::default() };
        let line = TaskLine::own(1_000, &TaskFact::Usage { usage }).expect("JSON");
        let (text, view) = frame(&line);
        assert_eq!((view.number, view.kind.as_str()), (None, "usage"));
        assert_eq!((view.fact["input_tokens"].as_u64(), view.fact.get("type")), (Some(5), None), "{text}");
        let call = protocol::ModelCall { provider: "p".to_owned(), ..Default::default() };
        let fact = TaskFact::Model(Box::new(protocol::ModelFact::Seen(call)));
        assert_eq!(frame(&TaskLine::own(1, &fact).expect("JSON")).1.fact["state"], "succeeded");
    }

    #[test]
    fn another_spelling_gives_the_same_frame_and_never_breaks_it() {
        for text in [
            "{\"type\":\"message\",\"text\":\"hi\",\"seq\":3,\"time_ms\":1000}",
            "{\"seq\":3,\"time_ms\":1000,\"type\":\"message\",\r\"text\":\r\"hi\"}",
            "{\"seq\":3,\"time_ms\":1000,\"type\":\"message\",\n\"text\":\"hi\"\n}",
            " {\"seq\":3, \"time_ms\":1000,\"type\":\"me\\u0073sage\",\"text\":\"hi\"} ",
        ] {
            let (frame, view) = frame(&parse(text).expect(text));
            assert_eq!((view.number, view.fact["text"].as_str()), (Some(3), Some("hi")), "{text}");
            assert_eq!((frame.matches('\n').count(), frame.matches('\r').count()), (4, 0), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "{}",
            "[]",
            "{\"seq\":1,\"time_ms\":1,\"type\":\"other\"}",
            "{\"seq\":-1,\"time_ms\":1,\"type\":\"message\"}",
            "{\"seq\":1,\"time_ms\":1,\"type\":\"message\"",
            "{\"seq\":1,\"time_ms\":1,\"type\":\"message\"} {}",
            "{\"seq\":1,\"time_ms\":1,\"type\":\"message\",\"sandbox\":\"x\"}",
            "{\"seq\":1,\"time_ms\":1,\"type\":\"message\",\"seq\":2}",
            "{\"seq\":1,\"time_ms\":1,\"type\":\"done\"}",
            "{\"seq\":1,\"time_ms\":1,\"type\":\"message\",\"text\":\"\\ud800\"}",
            "{\"seq\":1,\"time_ms\":1,\"type\":\"message\",\"n\":1e999}",
            &format!(
                "{{\"seq\":1,\"time_ms\":1,\"type\":\"message\",\"x\":{}{}}}",
                "[".repeat(500),
                "]".repeat(500)
            ),
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_line_that_clients_could_not_parse_is_refused() {
        let deep = [vec![b'['; 200], vec![b']'; 200]].concat();
        let values: [&[u8]; 6] =
            [b"\"\xff\"", b"\"\\ud800\"", b"\"\\udc00x\"", b"1e999", b"{\"\\ud9ff\":1}", &deep];
        for value in values {
            let head = b"{\"seq\":1,\"time_ms\":1,\"type\":\"message\",\"text\":";
            let line = Bytes::from([head.as_slice(), value, b"}"].concat());
            assert!(TaskLine::parse(&line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn phases_permissions_and_ends_update_the_record() {
        let line = parse("{\"seq\":1,\"time_ms\":1,\"type\":\"status\",\"phase\":\"agent\"}").expect("good");
        assert_eq!(line.update, TaskUpdate::Phase(TaskPhase::Agent));
        for (id, state, update) in [
            ("p1", "asked", TaskUpdate::PermissionAsked("p1".to_owned())),
            ("p1", "allowed", TaskUpdate::PermissionDecided("p1".to_owned())),
            ("p1", "denied", TaskUpdate::PermissionDecided("p1".to_owned())),
            ("p1", "withdrawn", TaskUpdate::PermissionDecided("p1".to_owned())),
            ("p1", "something new", TaskUpdate::None),
            ("", "asked", TaskUpdate::None),
            ("p\\n1", "asked", TaskUpdate::None),
            (&"p".repeat(33), "asked", TaskUpdate::None),
        ] {
            let text = format!(
                "{{\"seq\":1,\"time_ms\":1,\"type\":\"permission\",\"id\":\"{id}\",\"state\":\"{state}\"}}"
            );
            assert_eq!(parse(&text).expect("good").update, update, "{text}");
        }
        let result = Box::new(super::super::TaskEnding::Lost.result(true));
        let fact = TaskFact::Done { result: result.clone(), told: Some("1.2".parse().expect("a cursor")) };
        let event = TaskEvent { seq: 9, time_ms: 1, fact };
        let line = parse(&serde_json::to_string(&event).expect("JSON")).expect("good");
        assert_eq!(line.update, TaskUpdate::Done(result));
        assert!(!frame(&line).0.contains("told"), "fields between hostd and runtimed stay there");
    }
}
