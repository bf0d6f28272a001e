//! Stores and rows for tests, of this crate and of those above it.

use crate::{EventFilter, NewSandbox, NewTask, SandboxRecord, Secret, Store, error::During};
use hostd_core::{Blueprint, Environment, Provisioning, State, TaskLine};
use protocol::{
    Agent, EnvMap, TaskEvent, TaskFact, TaskId, TaskPhase, TaskRequest, Text,
    api::{AttemptRelation, Label, Owner, Problem, ProblemCode, SandboxId, SandboxScope},
};
use std::{collections::BTreeMap, sync::Arc};
use tempfile::TempDir;

pub const SECRET: &str = "hunter2-the-value";

/// An empty store, and the directory that holds it.
pub fn empty() -> (TempDir, Store) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(&dir.path().join("slipway.db")).expect("a store");
    (dir, store)
}

/// A store with one sandbox that is being created.
pub async fn with_one() -> (TempDir, Store, SandboxId) {
    let (dir, store) = empty();
    let record = insert(&store, new_sandbox(1, None)).await;
    (dir, store, record.id)
}

/// Makes updates of the given columns, or another change, fail, as on a full disk, until called with `false`.
pub async fn no_room_for(store: &Store, what: &str, full: bool) {
    let sql = match full {
        true => {
            let change =
                if what.starts_with("DELETE ") { what.to_owned() } else { format!("UPDATE OF {what}") };
            format!("CREATE TRIGGER no_room BEFORE {change} BEGIN SELECT RAISE(ABORT, 'no room'); END")
        }
        false => "DROP TRIGGER no_room".to_owned(),
    };
    store.write("test", move |conn| conn.execute_batch(&sql).during("run a test")).await.expect("run");
}

pub async fn insert(store: &Store, new: NewSandbox) -> SandboxRecord {
    store.insert_sandbox(new, AttemptRelation::Create).await.expect("inserted")
}

pub fn id(number: u64) -> SandboxId {
    format!("{number:026}").parse().expect("an id")
}

pub fn label(text: &str) -> Label {
    Label::parse(text).expect("a label")
}

pub fn owner() -> Owner {
    Owner { tenant: label("acme"), principal: label("ann"), project: label("default") }
}

pub fn new_sandbox(number: u64, scope: Option<SandboxScope>) -> NewSandbox {
    let env = EnvMap::from([("PASSWORD".to_owned(), SECRET.to_owned())]);
    let services = BTreeMap::from([("web".to_owned(), env.clone())]);
    NewSandbox {
        id: id(number),
        name: format!("box {number}"),
        owner: owner(),
        scope,
        blueprint: Arc::new(Blueprint::sample()),
        metadata: BTreeMap::from([("colour".to_owned(), "blue".to_owned())]),
        env: Secret(Environment { all: env, services, ..Environment::default() }),
        dotfiles: None,
        provisioning: Provisioning::default(),
        state: State::new(60_000),
        created_ms: 1_000,
        expires_ms: Some(9_000),
    }
}

pub fn problem() -> Problem {
    Problem {
        code: ProblemCode::Died,
        message: "it died".to_owned(),
        output: vec!["last words".to_owned()],
        step: None,
    }
}

/// Returns the kinds of all events, oldest first.
pub async fn kinds(store: &Store) -> Vec<String> {
    let events = store.events(EventFilter::default(), 0, 1_000).await.expect("events");
    events.into_iter().map(|event| event.kind).collect()
}

pub fn new_task(name: &str) -> NewTask {
    let env = EnvMap::from([("PASSWORD".to_owned(), SECRET.to_owned())]);
    let request = TaskRequest {
        id: Some(TaskId::parse(name).expect("an id")),
        prompt: "do it".to_owned(),
        agent: Agent::Command { argv: vec!["cat".to_owned()] },
        env,
        cwd: None,
        timeout_ms: None,
        idle_timeout_ms: None,
        keep_processes: false,
        warm: None,
        session: None,
        build: None,
        health_timeout_ms: None,
    };
    NewTask {
        sandbox: id(1),
        id: TaskId::parse(name).expect("an id"),
        agent: "command".to_owned(),
        created_by: "ann".to_owned(),
        prompt: "do it".to_owned(),
        request: Secret(request),
        request_hash: [7; 32],
        grant: None,
        created_ms: 5,
    }
}

/// Returns the line of a task that entered a phase.
pub fn status_line(seq: u64, phase: TaskPhase) -> TaskLine {
    let event = TaskEvent { seq, time_ms: 1_000 + seq, fact: TaskFact::Status { phase, checkpoint: None } };
    TaskLine::parse(&serde_json::to_vec(&event).expect("JSON").into()).expect("a line")
}

/// Returns agent messages, each with its number as the text.
pub fn lines(numbers: impl Iterator<Item = u64>) -> Vec<TaskLine> {
    let line = |number: u64| {
        let text = Text { text: number.to_string(), ..Text::default() };
        let event = TaskEvent { seq: number, time_ms: 1_000 + number, fact: TaskFact::Message(text) };
        TaskLine::parse(&serde_json::to_vec(&event).expect("JSON").into()).expect("a line")
    };
    numbers.map(line).collect()
}
