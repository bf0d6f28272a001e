//! The server: takes requests, asks the script, answers as the dialect and the fault want it.

use super::completion::Completion;
use super::conversation::Conversation;
use super::dialect::{Dialect, RequestKind};
use super::fault::{Body, answer, full};
use super::model_list::{listed, speech_of};
use super::received_request::ReceivedRequest;
use super::respond::{Responder, read, refusal};
use super::script::{Fault, Script, Turn};
use anyhow::{Context, Result};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use protocol::Usage;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

/// Stops when it is dropped.
pub struct FakeModel {
    address: SocketAddr,
    shared: Arc<ServerState>,
    serving: AbortHandle,
}

struct ServerState {
    /// The credential that it wants, if it wants one.
    key: Option<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By a mark that the prompt has; the one that was said last counts.
    scripts: Vec<(String, Script)>,
    heard: Vec<ReceivedRequest>,
    /// Tries of each turn of each script.
    tries: HashMap<(String, usize), usize>,
    told: Usage,
}

/// The handling of one request.
enum Plan {
    Completion { turn: Completion, fault: Option<Fault> },
    Refuse { code: u16, kind: &'static str, message: String },
}

impl FakeModel {
    pub async fn start(key: Option<&str>) -> Result<Self> {
        Self::start_at("127.0.0.1:0", key).await
    }

    pub async fn start_at(address: &str, key: Option<&str>) -> Result<Self> {
        let listener = TcpListener::bind(address).await.context("bind")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ServerState { key: key.map(str::to_owned), state: Mutex::default() });
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { address, shared, serving })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL of the provider, with the version of its API.
    pub fn base_url(&self, speech: Dialect) -> String {
        let version = if speech == Dialect::Generate { "v1beta" } else { "v1" };
        format!("http://{}/{version}", self.address)
    }

    /// Sets the script for every request that does not mention the mark of another script.
    pub fn script(&self, script: Script) {
        self.on("", script);
    }

    /// The answers to prompts that have this mark.
    pub fn on(&self, mark: &str, script: Script) {
        let mut state = self.state();
        state.scripts.retain(|(known, _)| known != mark);
        state.tries.retain(|(known, _), _| known != mark);
        state.scripts.push((mark.to_owned(), script));
    }

    /// All requests so far.
    pub fn heard(&self) -> Vec<ReceivedRequest> {
        self.state().heard.clone()
    }

    /// Calls of a model that offered tools, so those that a script answered.
    pub fn calls(&self) -> Vec<ReceivedRequest> {
        self.heard().into_iter().filter(|heard| heard.speech.is_some() && !heard.small).collect()
    }

    /// Tokens of all answers that were given to their end.
    pub fn told(&self) -> Usage {
        self.state().told
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<ServerState>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        // Costs only speed.
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(|request| {
                let shared = Arc::clone(&shared);
                async move { Ok::<_, Infallible>(shared.serve(request).await) }
            });
            let server = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // Clients may disconnect at any time, and faults end connections.
            let _ = server.await;
        });
        while connections.try_join_next().is_some() {}
    }
}

impl ServerState {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it is held")
    }

    async fn serve(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let json: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let wish = RequestKind::of(&head.method, head.uri.path(), &json);
        let lists = speech_of(head.uri.path(), head.headers.contains_key("anthropic-version"));
        let speech = match &wish {
            RequestKind::Completion { speech, .. } => Some(*speech),
            _ => None,
        };
        let asked = speech.map(|speech| read(speech, head.uri.path(), &json)).unwrap_or_default();
        let heard = ReceivedRequest {
            method: head.method.to_string(),
            path,
            headers: head.headers,
            body,
            speech,
            small: asked.offers.is_empty(),
            status: None,
        };
        let key = heard.key();
        let number = self.hear(heard);
        let plan = self.plan(&wish, &asked, number, key.as_deref());
        let response = match (wish, plan) {
            (RequestKind::Completion { speech, streams }, Plan::Completion { turn, fault }) => {
                let told = Responder { speech, streams, fault: fault.as_ref(), key: key.as_deref() };
                told.response(&turn, &json).await
            }
            (RequestKind::Completion { speech, .. }, Plan::Refuse { code, kind, message }) => {
                refusal(speech, code, kind, &message)
            }
            (RequestKind::Count(_), _) => {
                // Both names, so that it is right in either dialect.
                let count = json!({"input_tokens": 42, "totalTokens": 42});
                answer(200, "application/json", full(count.to_string()))
            }
            (RequestKind::Models, Plan::Refuse { code, kind, message }) => {
                let message = format!("{message} {}", key.unwrap_or_default());
                refusal(lists, code, kind, &message)
            }
            (RequestKind::Models, Plan::Completion { .. }) => {
                answer(200, "application/json", full(listed(lists).to_string()))
            }
            (RequestKind::Unknown, _) => answer(404, "application/json", full("{}")),
        };
        self.settle(number, response.status().as_u16());
        response
    }

    /// Writes the request down; its number, from 1.
    fn hear(&self, heard: ReceivedRequest) -> u64 {
        let mut state = self.state();
        state.heard.push(heard);
        state.heard.len() as u64
    }

    fn settle(&self, number: u64, status: u16) {
        if let Some(heard) = self.state().heard.get_mut(number as usize - 1) {
            heard.status = Some(status);
        }
    }

    fn plan(&self, wish: &RequestKind, asked: &Conversation, number: u64, key: Option<&str>) -> Plan {
        if self.key.is_some() && self.key.as_deref() != key {
            let message = "invalid x-api-key".to_owned();
            return Plan::Refuse { code: 401, kind: "authentication_error", message };
        }
        let mut state = self.state();
        let (turn, fault) = if asked.offers.is_empty() {
            (Completion::small(asked, number), None)
        } else {
            let (turn, fault) = state.next(asked);
            (Completion::of(&turn, asked, number), fault)
        };
        let whole = match fault {
            None | Some(Fault::Slow { .. } | Fault::HugeHeader { .. }) => true,
            Some(_) => false,
        };
        if whole && matches!(wish, RequestKind::Completion { .. }) {
            state.told = sum(state.told, turn.usage);
        }
        Plan::Completion { turn, fault }
    }
}

impl State {
    /// The turn of whichever script's mark was said last, and what goes wrong with this try of it.
    fn next(&mut self, asked: &Conversation) -> (Turn, Option<Fault>) {
        let said =
            |mark: &str| if mark.is_empty() { Some(0) } else { asked.last_said(mark).map(|at| at + 1) };
        let scripts = self.scripts.iter().filter_map(|(mark, script)| Some((said(mark)?, mark, script)));
        let Some((_, mark, script)) = scripts.max_by_key(|(at, _, _)| *at) else {
            return (Turn::say("nothing to do"), None);
        };
        let answers = asked.answers_since(mark);
        let turn = script.turn(answers);
        let tries = self.tries.entry((mark.clone(), answers)).or_default();
        let fault = turn.fault(*tries).cloned();
        *tries += 1;
        (turn, fault)
    }
}

fn sum(one: Usage, other: Usage) -> Usage {
    Usage {
        input_tokens: one.input_tokens + other.input_tokens,
        output_tokens: one.output_tokens + other.output_tokens,
        cache_read_tokens: one.cache_read_tokens + other.cache_read_tokens,
        cache_write_tokens: one.cache_write_tokens + other.cache_write_tokens,
        reasoning_tokens: one.reasoning_tokens + other.reasoning_tokens,
        calls: one.calls + 1,
        ..one
    }
}
