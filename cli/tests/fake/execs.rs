//! Execs of the fake hostd: their logs, ends, and the requests made on them.

use super::serve::{FakeResponse, Pieces, document, error};
use bytes::Bytes;
use hyper::body::Frame;
use serde_json::{Value, json};
use std::{collections::HashMap, io, sync::Mutex};
use tokio::sync::watch;

/// Chunks in one response before it is cut.
const CHUNKS_BEFORE_CUT: usize = 2;

#[derive(Default)]
struct Exec {
    argv: Vec<String>,
    /// Stream and text of each chunk.
    log: Vec<(&'static str, String)>,
    input: Vec<u8>,
    exit: Option<Value>,
}

#[derive(Default)]
pub struct Execs {
    all: Mutex<HashMap<String, Exec>>,
    /// Every act on an exec: `signal INT`, `cancel`, `create`.
    acts: watch::Sender<Vec<String>>,
}

impl Execs {
    pub async fn answer(&self, method: &str, path: &[&str], query: &str, body: &Bytes) -> FakeResponse {
        match (method, path) {
            ("POST", []) => self.create(body),
            ("GET", [id]) => document(200, &self.view(id)),
            ("GET", [id, "output"]) => self.output(id, query).await,
            ("POST", [id, "stdin"]) => self.stdin(id, body, query.contains("eof=1")),
            ("POST", [id, "signal"]) => {
                let body: Value = serde_json::from_slice(body).expect("JSON");
                self.end(
                    id,
                    &format!("signal {} {}", text(&body["signal"]), text(&body["scope"])),
                    json!({ "kind": "signalled", "signal": 2 }),
                )
            }
            ("POST", [id, "cancel"]) => self.end(id, "cancel", json!({ "kind": "cancelled" })),
            _ => document(404, &error("not_found", "no such exec")),
        }
    }

    pub fn acts(&self) -> Vec<String> {
        self.acts.borrow().clone()
    }

    /// Waits for an act with this prefix.
    pub async fn wait_for_act(&self, text: &str) {
        let mut acts = self.acts.subscribe();
        acts.wait_for(|acts| acts.iter().any(|act| act.starts_with(text))).await.expect("the sender lives");
    }

    fn act(&self, text: &str) {
        self.acts.send_modify(|acts| acts.push(text.to_owned()));
    }

    fn create(&self, body: &Bytes) -> FakeResponse {
        let body: Value = serde_json::from_slice(body).expect("JSON");
        let argv: Vec<String> = serde_json::from_value(body["argv"].clone()).expect("argv");
        let id = text(&body["id"]);
        let mut exec = Exec { argv: argv.clone(), ..Exec::default() };
        match argv[0].as_str() {
            "print" => {
                let count: usize = argv[1].parse().expect("a number");
                exec.log = (0..count).map(|n| (["stdout", "stderr"][n % 2], format!("line {n}\n"))).collect();
                exec.exit = Some(json!({ "kind": "exited", "code": 3 }));
            }
            "oom" => exec.exit = Some(json!({ "kind": "oom" })),
            _ => {}
        }
        self.all.lock().expect("no panic").entry(id.clone()).or_insert(exec);
        self.act("create");
        document(202, &self.view(&id))
    }

    fn view(&self, id: &str) -> Value {
        let all = self.all.lock().expect("no panic");
        let exec = &all[id];
        let state = if exec.exit.is_some() { "ended" } else { "running" };
        let mut view = json!({ "id": id, "state": state, "argv": exec.argv, "cwd": "/", "tty": false, "started_at": "" });
        if let Some(exit) = &exec.exit {
            view["exit"] = exit.clone();
        }
        view
    }

    fn stdin(&self, id: &str, body: &Bytes, eof: bool) -> FakeResponse {
        let mut all = self.all.lock().expect("no panic");
        let exec = all.get_mut(id).expect("an exec");
        if exec.exit.is_some() {
            return document(409, &error("not_running", "it has ended"));
        }
        exec.input.extend_from_slice(body);
        if eof {
            exec.log.push(("stdout", String::from_utf8(exec.input.clone()).expect("text")));
            exec.exit = Some(json!({ "kind": "exited", "code": 0 }));
        }
        drop(all);
        self.act("stdin");
        document(200, &json!({}))
    }

    fn end(&self, id: &str, act: &str, exit: Value) -> FakeResponse {
        self.all.lock().expect("no panic").get_mut(id).expect("an exec").exit.get_or_insert(exit);
        self.act(act);
        document(200, &json!({}))
    }

    /// Returns the output after the cursor once the exec has ended; long output is cut in the middle.
    async fn output(&self, id: &str, query: &str) -> FakeResponse {
        self.act("output");
        let mut acts = self.acts.subscribe();
        let ended = |_: &Vec<String>| self.all.lock().expect("no panic")[id].exit.is_some();
        acts.wait_for(ended).await.expect("the sender lives");
        let after = query.split('&').find_map(|pair| pair.strip_prefix("after=")?.parse().ok()).unwrap_or(0);
        let lines = self.lines(id, after);
        let mut pieces: Pieces = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            if index == CHUNKS_BEFORE_CUT && lines.len() > CHUNKS_BEFORE_CUT + 1 {
                pieces.push(Ok(Frame::data(Bytes::copy_from_slice(&line.as_bytes()[..line.len() / 2]))));
                pieces.push(Err(io::ErrorKind::ConnectionReset.into()));
                break;
            }
            pieces.push(Ok(Frame::data(Bytes::from(line.clone()))));
        }
        (200, pieces)
    }

    fn lines(&self, id: &str, after: usize) -> Vec<String> {
        let all = self.all.lock().expect("no panic");
        let mut cursor = 0;
        let mut lines = Vec::new();
        for (stream, data) in &all[id].log {
            cursor += data.len();
            if cursor > after {
                lines.push(format!(
                    "{}\n",
                    json!({ "type": "output", "cursor": cursor, "stream": stream, "offset": 0, "data": data })
                ));
            }
        }
        lines.push(format!("{}\n", json!({ "type": "end", "cursor": cursor, "ended": true })));
        lines
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}
