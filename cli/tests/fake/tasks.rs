//! Tasks of the fake hostd: their events, ends, and the requests made on them.

use super::{
    WEB,
    serve::{FakeResponse, Pieces, document, error},
};
use bytes::Bytes;
use hyper::body::Frame;
use serde_json::{Value, json};
use std::{collections::BTreeMap, io, sync::Mutex};
use tokio::sync::watch;

/// The numbers of hostd's log grow by this much from one event of a task to the next.
const SEQ_STEP: u64 = 3;

struct Task {
    sandbox: String,
    body: Value,
    /// JSON of each event; the last one of an ended task is `done`.
    events: Vec<Value>,
    ended: bool,
}

#[derive(Default)]
pub struct Tasks {
    all: Mutex<BTreeMap<String, Task>>,
    /// Every act: `submit`, `cancel`, `events`, `make`, `destroy ID`.
    acts: watch::Sender<Vec<String>>,
}

impl Tasks {
    pub async fn answer(
        &self,
        method: &str,
        sandbox: &str,
        path: &[&str],
        request: &TaskHttpRequest<'_>,
    ) -> FakeResponse {
        match (method, path) {
            ("POST", []) => self.submit(sandbox, request.body),
            ("GET", []) => {
                let ids: Vec<String> = self.all.lock().expect("no panic").keys().rev().cloned().collect();
                let items: Vec<Value> = ids.iter().map(|id| self.view(id, false)).collect();
                document(200, &json!({ "items": items }))
            }
            (_, [id, ..]) if !self.all.lock().expect("no panic").contains_key(*id) => {
                document(404, &error("not_found", "there is no such task"))
            }
            ("GET", [id]) => document(200, &self.view(id, true)),
            ("GET", [id, "events"]) => self.events(id, request.after).await,
            ("POST", [id, "cancel"]) => self.cancel(id),
            ("POST", [id, "permissions", "p1"]) => self.decide_permission(id, request.body),
            _ => document(404, &error("not_found", "no such thing")),
        }
    }

    pub fn act(&self, text: impl Into<String>) {
        self.acts.send_modify(|acts| acts.push(text.into()));
    }

    pub fn acts(&self) -> Vec<String> {
        self.acts.borrow().clone()
    }

    pub fn count(&self, act: &str) -> usize {
        self.acts.borrow().iter().filter(|known| *known == act).count()
    }

    /// Waits until an act was seen this often.
    pub async fn wait_for_act(&self, act: &str, times: usize) {
        let mut acts = self.acts.subscribe();
        let often = |acts: &Vec<String>| acts.iter().filter(|known| *known == act).count() >= times;
        acts.wait_for(often).await.expect("the sender lives");
    }

    /// Returns the request body of the only task.
    pub fn body(&self) -> Value {
        let all = self.all.lock().expect("no panic");
        all.values().next().expect("a task").body.clone()
    }

    /// Returns the JSON of every event of the only task.
    pub fn events_json(&self) -> Vec<String> {
        let all = self.all.lock().expect("no panic");
        all.values().next().expect("a task").events.iter().map(Value::to_string).collect()
    }

    fn submit(&self, sandbox: &str, body: &Bytes) -> FakeResponse {
        let body: Value = serde_json::from_slice(body).expect("JSON");
        let id = body["id"].as_str().expect("slipway chooses the id").to_owned();
        let argv: Vec<String> = serde_json::from_value(body["command"].clone()).unwrap_or_default();
        self.act("submit");
        if body["agent"] == "unknown" {
            return document(400, &error("invalid_request", "there is no agent unknown"));
        }
        let mut all = self.all.lock().expect("no panic");
        let task = all.entry(id.clone()).or_insert_with(|| Task {
            sandbox: sandbox.to_owned(),
            body,
            events: Vec::new(),
            ended: false,
        });
        if task.events.is_empty() {
            task.run_program(&id, &argv);
        }
        drop(all);
        document(202, &self.view(&id, true))
    }

    fn cancel(&self, id: &str) -> FakeResponse {
        let mut all = self.all.lock().expect("no panic");
        let task = all.get_mut(id).expect("it is known");
        if !task.ended && task.body["command"][0] != "stubborn" {
            task.end(id, &json!({ "status": "cancelled", "failure_reason": "cancelled" }));
        }
        drop(all);
        self.act("cancel");
        document(202, &self.view(id, true))
    }

    fn decide_permission(&self, id: &str, body: &Bytes) -> FakeResponse {
        let answer: Value = serde_json::from_slice(body).expect("JSON");
        let mut all = self.all.lock().expect("no panic");
        let task = all.get_mut(id).expect("it is known");
        let state = if answer["decision"] == "allow" { "allowed" } else { "denied" };
        task.push_event(id, "permission", &permission(state));
        task.end(id, &json!({ "status": "succeeded" }));
        drop(all);
        self.act(format!("permission {answer}"));
        (204, Vec::new())
    }

    fn view(&self, id: &str, whole: bool) -> Value {
        let all = self.all.lock().expect("no panic");
        let task = &all[id];
        let result = task.events.last().filter(|_| task.ended).map(|done| done["result"].clone());
        let status = result.as_ref().map_or(json!("running"), |result| result["status"].clone());
        let mut view = json!({ "id": id, "sandbox_id": task.sandbox, "status": status, "agent": "command",
            "phase": if task.ended { "done" } else { "agent" }, "prompt": task.body["prompt"],
            "events_url": "", "created_at": "" });
        if let (Some(result), true) = (result, whole) {
            view["result"] = result;
        }
        view
    }

    /// Sends one new event, after it a prefix of the next that differs each time, before it sometimes an old one; then
    /// drops the connection. Responds 204 when everything was sent, and waits while there is nothing new.
    async fn events(&self, id: &str, after: Option<u64>) -> FakeResponse {
        self.act("events");
        let try_number = self.count("events");
        let after = after.unwrap_or(0);
        let new = |event: &Value| event["seq"].as_u64().expect("a number") > after;
        let mut acts = self.acts.subscribe();
        let ready = |_: &Vec<String>| {
            let all = self.all.lock().expect("no panic");
            all[id].ended || all[id].events.iter().any(new)
        };
        acts.wait_for(ready).await.expect("the sender lives");
        let all = self.all.lock().expect("no panic");
        let events = &all[id].events;
        let Some(next) = events.iter().position(new) else { return (204, Vec::new()) };
        let mut text = "retry: 1\n\n: a heartbeat\n\n".to_owned();
        for event in &events[next.saturating_sub(try_number % 2)..=next] {
            text.push_str(&frame(event));
        }
        if let Some(event) = events.get(next + 1) {
            let frame = frame(event);
            text.push_str(&frame[..try_number % frame.len()]);
        }
        let mut pieces: Pieces = vec![Ok(Frame::data(Bytes::from(text)))];
        if try_number.is_multiple_of(3) {
            pieces.push(Err(io::ErrorKind::ConnectionReset.into()));
        }
        (200, pieces)
    }
}

/// A request beside its path.
pub struct TaskHttpRequest<'a> {
    pub body: &'a Bytes,
    pub after: Option<u64>,
}

impl Task {
    /// Runs the program of this name.
    fn run_program(&mut self, id: &str, argv: &[String]) {
        let word = |n: usize| argv.get(n).map(String::as_str).unwrap_or_default();
        self.push_event(id, "status", &json!({ "phase": "agent" }));
        match word(0) {
            "print" => {
                for n in 0..word(1).parse().expect("a number") {
                    self.push_event(id, "message", &json!({ "text": format!("line {n}") }));
                }
                self.end(id, &json!({ "status": "succeeded" }));
            }
            "evil" => {
                self.push_event(
                    id,
                    "message",
                    &json!({ "text": "\u{1b}[2J\u{1b}]0;owned\u{7}harm", "partial": true }),
                );
                self.push_event(id, "message", &json!({ "text": "G1szMW1sZXNz/w==", "encoding": "base64" }));
                self.end(id, &json!({ "status": "succeeded" }));
            }
            "hang" | "stubborn" | "" => {}
            "ask" => self.push_event(id, "permission", &permission("asked")),
            "exit" => {
                let code: i32 = word(1).parse().expect("a number");
                let exit = json!({ "kind": "exited", "code": code });
                self.end(id, &json!({ "status": "failed", "failure_reason": "agent_failed", "exit": exit }));
            }
            reason => self.end(id, &json!({ "status": "failed", "failure_reason": reason })),
        }
    }

    fn push_event(&mut self, id: &str, kind: &str, fact: &Value) {
        let number = self.events.len() as u64 + 1;
        let mut event = json!({ "seq": 100 + number * SEQ_STEP, "time": "2026-11-16T08:00:00.000Z", "task": id,
            "sandbox": WEB, "number": number, "kind": kind });
        for (name, value) in fact.as_object().expect("an object") {
            event[name] = value.clone();
        }
        self.events.push(event);
    }

    fn end(&mut self, id: &str, how: &Value) {
        let mut result = json!({ "build": { "status": "skipped", "duration_ms": 0 }, "health": { "status": "unknown" },
            "durations": { "queued_ms": 0, "preparing_ms": 0, "checkpoint_ms": 0, "agent_ms": 2000, "build_ms": 0,
                "health_ms": 0, "total_ms": 2000 },
            "files_changed": { "added": 1, "modified": 0, "deleted": 0, "added_lines": 3, "deleted_lines": 0,
                "files": [{ "path": { "data": "new.rs" }, "change": "added", "added_lines": 3 }] },
            "checkpoint": { "state": "unavailable", "why": "there is no git" } });
        for (name, value) in how.as_object().expect("an object") {
            result[name] = value.clone();
        }
        self.push_event(id, "done", &json!({ "result": result }));
        self.ended = true;
    }
}

fn permission(state: &str) -> Value {
    let about = json!({ "id": "1", "title": "bash", "status": "pending", "input": { "command": "make" } });
    let options = json!([{ "id": "ever", "name": "Always", "kind": "allow_always" }]);
    json!({ "id": "p1", "state": state, "about": about, "options": options, "by": "caller" })
}

fn frame(event: &Value) -> String {
    format!("id: {}\nevent: {}\ndata: {event}\n\n", event["seq"], event["kind"].as_str().expect("text"))
}
