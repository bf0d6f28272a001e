//! Keeps an editor's session whole over a connection to hostd that may be cut. Pure.
//!
//! ```text
//!  down ── connected: initialize, resume each session ──▶ resuming ── all answered: requests, what waited ──▶ up
//!   ▲                                                        │                                                │
//!   └────────────────────────── disconnected ◀───────────────┴────────────────────────────────────────────────┘
//! ```
//!
//! Requests without a response are sent again on the next connection. Those that make something carry a `messageId`, so
//! that hostd does it once; a session goes on after the last event that the editor was told of.

use super::messages::{self, Kind};
use crate::limits;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Prefix of the ids of requests that are the bridge's own.
const OWN: &str = "slipway-bridge-";
const PARSE_ERROR: i64 = -32_700;
const INTERNAL_ERROR: i64 = -32_603;
const RESOURCE_NOT_FOUND: i64 = -32_002;

/// A message, and for whom it is.
#[derive(Debug, Clone, PartialEq)]
pub enum Sent {
    ToHostd(Value),
    ToEditor(Value),
    /// hostd could not resume a session: the connection begins anew.
    Reconnect,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Down,
    /// These requests of the bridge, with the sessions that they resume, have no response yet.
    Resuming(BTreeMap<String, Option<String>>),
    Up,
}

/// A session that the editor has open.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Session {
    cwd: Value,
    /// The last event that the editor was told of.
    seq: u64,
}

/// A request of the editor without a response.
struct Pending {
    message: Value,
    /// Whether the editor cancelled it, which a connection that was cut may have lost.
    cancelled: bool,
}

/// A permission request that the editor got.
enum Asked {
    Waits,
    Answered(Value),
}

pub struct Bridge {
    /// Makes ids of messages different from those of other bridges.
    name: String,
    next: u64,
    state: State,
    /// The editor's own, once it had its response.
    initialize: Option<Value>,
    requests: Vec<Pending>,
    sessions: BTreeMap<String, Session>,
    asked: BTreeMap<String, Asked>,
    answers: VecDeque<String>,
    /// Notifications that wait for the connection.
    waiting: VecDeque<Value>,
}

impl Bridge {
    pub fn new(name: String) -> Self {
        Self {
            name,
            next: 0,
            state: State::Down,
            initialize: None,
            requests: Vec::new(),
            sessions: BTreeMap::new(),
            asked: BTreeMap::new(),
            answers: VecDeque::new(),
            waiting: VecDeque::new(),
        }
    }

    pub fn on_editor(&mut self, line: &[u8]) -> Vec<Sent> {
        let message: Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) => {
                let why = format!("not a JSON document: {error}");
                return vec![Sent::ToEditor(messages::error(&Value::Null, PARSE_ERROR, &why))];
            }
        };
        match messages::kind(&message) {
            Some(Kind::Request) => self.on_request(message),
            Some(Kind::Response) => self.on_answer(message),
            // hostd says what is wrong with a message that is none.
            Some(Kind::Notification) | None => self.pass(message),
        }
    }

    fn on_request(&mut self, mut message: Value) -> Vec<Sent> {
        if self.requests.len() >= limits::ACP_WAITING_MAX {
            let why = "too many requests wait for hostd";
            return vec![Sent::ToEditor(messages::error(&message["id"], INTERNAL_ERROR, why))];
        }
        if matches!(messages::method(&message), "session/new" | "session/prompt") {
            self.next += 1;
            let id = json!(format!("{}-{}", self.name, self.next));
            messages::set_meta(&mut message, "messageId", id, false);
        }
        if messages::method(&message) == "session/load"
            && let Some(session) = messages::session(&message)
        {
            // The editor is told of everything anew.
            self.sessions.remove(session);
        }
        self.requests.push(Pending { message: message.clone(), cancelled: false });
        if self.is_up() { vec![Sent::ToHostd(message)] } else { Vec::new() }
    }

    fn on_answer(&mut self, message: Value) -> Vec<Sent> {
        let Some(id) = message["id"].as_str().map(str::to_owned) else { return Vec::new() };
        let Some(asked) = self.asked.get_mut(&id) else { return Vec::new() };
        *asked = Asked::Answered(message.clone());
        self.answers.push_back(id);
        if self.answers.len() > limits::ACP_ANSWERS_MAX
            && let Some(oldest) = self.answers.pop_front()
        {
            self.asked.remove(&oldest);
        }
        // Otherwise hostd asks again, and gets the answer then.
        if self.is_up() { vec![Sent::ToHostd(message)] } else { Vec::new() }
    }

    fn pass(&mut self, message: Value) -> Vec<Sent> {
        let cancels = messages::method(&message) == "session/cancel";
        if cancels && let Some(session) = messages::session(&message) {
            for pending in &mut self.requests {
                let (method, of) = (messages::method(&pending.message), messages::session(&pending.message));
                pending.cancelled |= method == "session/prompt" && of == Some(session);
            }
        }
        if self.is_up() {
            return vec![Sent::ToHostd(message)];
        }
        if cancels {
            // Told of with the requests, when the connection is back.
            return Vec::new();
        }
        self.waiting.push_back(message);
        if self.waiting.len() > limits::ACP_WAITING_MAX {
            self.waiting.pop_front();
        }
        Vec::new()
    }

    pub fn on_hostd(&mut self, text: &str) -> Vec<Sent> {
        let Ok(message) = serde_json::from_str::<Value>(text) else { return Vec::new() };
        match messages::kind(&message) {
            Some(Kind::Response) => self.on_response(message),
            Some(Kind::Request) => self.on_asked(message),
            Some(Kind::Notification) => self.on_notification(message),
            None => Vec::new(),
        }
    }

    fn on_response(&mut self, message: Value) -> Vec<Sent> {
        if let Some(own) = message["id"].as_str().filter(|id| id.starts_with(OWN)) {
            return self.on_own_response(own, &message["error"]["code"]);
        }
        let Some(at) = self.requests.iter().position(|pending| pending.message["id"] == message["id"]) else {
            // To a message that was none, or sent twice over two connections.
            let is_new = message["id"].is_null();
            return if is_new { vec![Sent::ToEditor(message)] } else { Vec::new() };
        };
        let request = self.requests.remove(at).message;
        if message.get("error").is_none() {
            self.succeeded(request, &message["result"]);
        }
        vec![Sent::ToEditor(message)]
    }

    /// Remembers what a later connection must begin with.
    fn succeeded(&mut self, request: Value, result: &Value) {
        let session = messages::session(&request).or(result["sessionId"].as_str()).map(str::to_owned);
        let open = |seq| Session { cwd: request["params"]["cwd"].clone(), seq };
        match (messages::method(&request), session) {
            ("initialize", _) => self.initialize = Some(request),
            ("session/new" | "session/load" | "session/resume", Some(session)) => {
                let seq = self.sessions.get(&session).map_or(0, |known| known.seq);
                let seq = seq.max(request["params"]["_meta"]["after"].as_u64().unwrap_or(0));
                self.sessions.insert(session, open(seq));
            }
            ("session/close" | "session/delete", Some(session)) => drop(self.sessions.remove(&session)),
            ("session/prompt", Some(session)) => self.saw(&session, &result["_meta"]["seq"]),
            _ => {}
        }
    }

    fn saw(&mut self, session: &str, seq: &Value) {
        let Some(seq) = seq.as_u64() else { return };
        // A session that is being opened.
        let new = || Session { cwd: json!("/"), seq: 0 };
        let known = self.sessions.entry(session.to_owned()).or_insert_with(new);
        known.seq = known.seq.max(seq);
    }

    fn on_notification(&mut self, message: Value) -> Vec<Sent> {
        match messages::method(&message) {
            "session/update" => {
                if let Some(session) = messages::session(&message).map(str::to_owned) {
                    self.saw(&session, &message["params"]["_meta"]["seq"]);
                }
            }
            "$/cancel_request" => {
                let id = message["params"]["requestId"].as_str();
                if id.is_some_and(|id| self.asked.remove(id).is_none()) {
                    return Vec::new();
                }
            }
            _ => {}
        }
        vec![Sent::ToEditor(message)]
    }

    /// A request that was passed on before is not passed on again.
    fn on_asked(&mut self, message: Value) -> Vec<Sent> {
        let Some(id) = message["id"].as_str().map(str::to_owned) else {
            return vec![Sent::ToEditor(message)];
        };
        match self.asked.get(&id) {
            Some(Asked::Waits) => Vec::new(),
            Some(Asked::Answered(answer)) => vec![Sent::ToHostd(answer.clone())],
            None => {
                self.asked.insert(id, Asked::Waits);
                vec![Sent::ToEditor(message)]
            }
        }
    }

    pub fn on_connected(&mut self) -> Vec<Sent> {
        let initialize =
            self.initialize.iter().map(|request| ("initialize", request["params"].clone(), None));
        let open = self.sessions.iter().filter(|(id, _)| !self.is_being_opened(id));
        let resume = open.map(|(id, session)| {
            let after = json!({"after": session.seq});
            let params = json!({"sessionId": id, "cwd": session.cwd, "mcpServers": [], "_meta": after});
            ("session/resume", params, Some(id.clone()))
        });
        let begin: Vec<(&str, Value, Option<String>)> = initialize.chain(resume).collect();
        let (mut own, mut sent) = (BTreeMap::new(), Vec::new());
        for (method, params, session) in begin {
            self.next += 1;
            let id = format!("{OWN}{}", self.next);
            sent.push(Sent::ToHostd(messages::request(&id, method, &params)));
            own.insert(id, session);
        }
        self.state = State::Resuming(own);
        sent.extend(self.go_up());
        sent
    }

    /// Whether a request that opens the session waits for its response: it is sent again itself.
    fn is_being_opened(&self, session: &str) -> bool {
        let opens = |pending: &Pending| {
            matches!(messages::method(&pending.message), "session/load" | "session/resume")
                && messages::session(&pending.message) == Some(session)
        };
        self.requests.iter().any(opens)
    }

    fn on_own_response(&mut self, id: &str, error: &Value) -> Vec<Sent> {
        let State::Resuming(own) = &mut self.state else { return Vec::new() };
        let session = own.remove(id).flatten();
        match error.as_i64() {
            None => self.go_up(),
            // The editor is told by the response to its next request for the session.
            Some(RESOURCE_NOT_FOUND) => {
                session.map(|session| self.sessions.remove(&session));
                self.go_up()
            }
            // Otherwise requests would be told of events that the editor has seen.
            Some(_) => vec![Sent::Reconnect],
        }
    }

    /// Sends what waited, once all sessions are resumed.
    fn go_up(&mut self) -> Vec<Sent> {
        match &self.state {
            State::Resuming(own) if own.is_empty() => self.state = State::Up,
            State::Resuming(_) | State::Down | State::Up => return Vec::new(),
        }
        let mut sent: Vec<Sent> = Vec::new();
        for pending in &mut self.requests {
            let request = &mut pending.message;
            if messages::method(request) == "session/load"
                && let Some(known) = messages::session(request).and_then(|id| self.sessions.get(id))
            {
                // The editor was told of a part.
                messages::set_meta(request, "after", json!(known.seq), true);
            }
            sent.push(Sent::ToHostd(request.clone()));
        }
        let cancelled = self.requests.iter().filter(|pending| pending.cancelled);
        sent.extend(cancelled.map(|pending| Sent::ToHostd(messages::cancel(&pending.message["id"]))));
        sent.extend(self.waiting.drain(..).map(Sent::ToHostd));
        sent
    }

    pub fn on_disconnected(&mut self) {
        self.state = State::Down;
    }

    pub fn is_up(&self) -> bool {
        self.state == State::Up
    }
}

#[cfg(test)]
#[path = "bridge_tests.rs"]
mod tests;
