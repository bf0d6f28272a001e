//! A client that uses one sandbox after another: creates it, does a few things in any order, and destroys it. It knows
//! what it was answered, and checks that this stays true.

use super::operations::{Answer, Begun, Operation};
use super::{Load, spec};
use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::future::try_join_all;
use http_body_util::Full;
use hyper::header::{ACCEPT, HOST};
use hyper::{Method, Request};
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tests::{Caller, FlakyViewer, Job, Random, Reply};
use tokio::time::sleep;

/// Viewers of each task.
const VIEWERS: usize = 2;
/// Files of one sandbox.
const FILES: u64 = 6;
const FILE_MAX_BYTES: u64 = 16 << 10;
/// Before a client asks again that was refused or cut off.
const RETRY: Duration = Duration::from_millis(50);

/// A task that was followed to its end.
pub struct SeenTask {
    pub job: Job,
    /// Numbers of its events.
    pub events: Vec<u64>,
}

pub struct Worker {
    load: Arc<Load>,
    number: usize,
    random: Random,
    made: u64,
    pub tasks: Vec<SeenTask>,
}

/// A sandbox, and what must be in its files: nothing, where an answer was cut off.
struct Life {
    id: String,
    files: BTreeMap<u64, Option<Vec<u8>>>,
}

impl Life {
    fn path(&self, rest: &str) -> String {
        format!("/v1/sandboxes/{}{rest}", self.id)
    }

    fn file(&self, file: u64) -> String {
        self.path(&format!("/files/content?path=file-{file}"))
    }
}

impl Worker {
    pub fn new(load: &Arc<Load>, number: usize, random: Random) -> Self {
        Self { load: load.clone(), number, random, made: 0, tasks: Vec::new() }
    }

    /// Works until the deadline of the load; the tasks that were seen.
    pub async fn run(mut self) -> Result<Vec<SeenTask>> {
        while self.load.goes_on() {
            self.made += 1;
            let body = spec(&format!("load-{}-{}", self.number, self.made));
            let Answer::Done(reply) = self.post(Operation::Create, "/v1/sandboxes", &body).await else {
                sleep(RETRY).await;
                continue;
            };
            let mut life = Life { id: id_of(&reply)?, files: BTreeMap::new() };
            for _ in 0..3 + self.random.below(12) {
                if !self.load.goes_on() {
                    break;
                }
                self.step(&mut life).await?;
            }
            self.destroy(&life.id).await;
        }
        Ok(self.tasks)
    }

    async fn step(&mut self, life: &mut Life) -> Result<()> {
        match self.random.below(20) {
            0..5 => self.exec(life).await?,
            5..8 => self.write(life).await,
            8..11 => self.read(life).await,
            11..13 => self.preview(life).await?,
            13..15 => self.task(life).await?,
            15 | 16 => self.snapshot(life).await?,
            17 => self.verb(Operation::Pause, life, "pause").await,
            18 => self.verb(Operation::Stop, life, "stop").await,
            _ => self.verb(Operation::Start, life, "start").await,
        }
        Ok(())
    }

    async fn send(&self, operation: Operation, method: Method, path: &str, body: Bytes) -> Answer {
        let begun = Begun::new(operation, &self.load.outages);
        let answer = self.load.caller.send(method.clone(), path, body).await;
        let status = answer.as_ref().map_or(0, |reply| reply.status);
        self.load.operations.note(format!("{method} {path} {status}"));
        self.load.operations.judge(&begun, answer, &self.load.outages)
    }

    async fn post(&self, operation: Operation, path: &str, body: &Value) -> Answer {
        self.send(operation, Method::POST, path, body.to_string().into()).await
    }

    async fn verb(&self, operation: Operation, life: &Life, verb: &str) {
        self.recover(&self.post(operation, &life.path(&format!("/{verb}")), &json!({})).await, life).await;
    }

    /// Starts a sandbox that failed, as its owner would.
    async fn recover(&self, answer: &Answer, life: &Life) {
        if let Answer::Refused(ApiErrorCode::SandboxFailed) = answer {
            self.post(Operation::Start, &life.path("/start"), &json!({})).await;
        }
    }

    /// A command that prints a number.
    async fn exec(&mut self, life: &Life) -> Result<()> {
        let number = self.random.number();
        let body = json!({"shell": format!("echo {number}"), "timeout_s": 30});
        let answer = self.post(Operation::Exec, &life.path("/execs"), &body).await;
        if let Answer::Done(reply) = &answer {
            let exec: Value = reply.json()?;
            let lost = exec["hints"]
                .as_array()
                .is_some_and(|hints| hints.iter().any(|hint| hint["kind"] == "output_lost"));
            match exec["exit"]["kind"].as_str() {
                Some("exited") if exec["stdout"] == format!("{number}\n") || lost => {}
                // Its sandbox was killed between the end and the answer: the record of an exec has no output.
                Some("exited") if exec["stdout"].is_null() => {
                    self.load.operations.refused(Operation::Exec, "ended:without_output");
                }
                Some("exited") | None => drop(self.wrong(Operation::Exec, &exec.to_string())),
                Some(ended) => self.load.operations.refused(Operation::Exec, &format!("ended:{ended}")),
            }
        }
        self.recover(&answer, life).await;
        Ok(())
    }

    fn wrong(&self, operation: Operation, what: &str) -> Answer {
        self.load.operations.wrong(operation, what)
    }

    /// A write that is answered stays, and one that is refused changes nothing.
    async fn write(&mut self, life: &mut Life) {
        let file = self.random.below(FILES);
        let length = self.random.below(FILE_MAX_BYTES) as usize;
        let content = self.random.bytes(length);
        match self.send(Operation::Write, Method::PUT, &life.file(file), content.clone().into()).await {
            Answer::Done(_) => drop(life.files.insert(file, Some(content))),
            Answer::Cut => drop(life.files.insert(file, None)),
            Answer::Refused(_) | Answer::Wrong => {}
        }
    }

    async fn read(&mut self, life: &Life) {
        let known = life.files.iter().nth(self.random.below(life.files.len() as u64) as usize);
        let Some((&file, expected)) = known else { return };
        match self.send(Operation::Read, Method::GET, &life.file(file), Bytes::new()).await {
            Answer::Done(reply) if expected.as_ref().is_none_or(|content| reply.body == content) => {}
            Answer::Done(reply) => {
                drop(self.wrong(
                    Operation::Read,
                    &format!("{} has {} other bytes", life.file(file), reply.body.len()),
                ));
            }
            Answer::Refused(ApiErrorCode::NotFound) if expected.is_some() => {
                drop(self.wrong(Operation::Read, &format!("{} is gone", life.file(file))));
            }
            Answer::Refused(_) | Answer::Cut | Answer::Wrong => {}
        }
    }

    /// What a browser would see; it wakes a sandbox that sleeps.
    async fn preview(&mut self, life: &Life) -> Result<()> {
        let begun = Begun::new(Operation::Preview, &self.load.outages);
        let answer = self.visit(life).await;
        let answer = self.load.operations.judge(&begun, answer, &self.load.outages);
        if let Answer::Done(reply) = &answer
            && &reply.body[..] != b"up\n"
        {
            drop(self.wrong(Operation::Preview, &reply.text()));
        }
        self.recover(&answer, life).await;
        Ok(())
    }

    async fn visit(&self, life: &Life) -> Result<Reply> {
        // The port of previews is another one with each hostd.
        let reply = self.load.caller.get(&life.path("")).await?;
        if reply.status != 200 {
            return Ok(reply);
        }
        let view: Value = reply.json()?;
        let url = view["previews"]["8000"].as_str().with_context(|| format!("no preview: {view}"))?;
        let host = url.trim_start_matches("http://").trim_end_matches('/');
        let (_, port) = host.rsplit_once(':').context("a port")?;
        let request = Request::get("/").header(HOST, host).header(ACCEPT, "application/json");
        let edge = Caller::tcp(&format!("http://127.0.0.1:{port}"), None);
        edge.call(request.body(Full::new(Bytes::new()))?).await
    }

    /// A task that counts, with viewers that hang up and read slowly.
    async fn task(&mut self, life: &Life) -> Result<()> {
        let lines = 10 + self.random.below(60);
        let line = format!(
            "i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo $i; [ $((i % 20)) != 0 ] || sleep 0.02; done"
        );
        let body = json!({"prompt": "count", "command": ["sh", "-c", line], "build": ""});
        let answer = self.post(Operation::Task, &life.path("/tasks"), &body).await;
        if let Answer::Done(reply) = &answer {
            let job = Job { sandbox: life.id.clone(), id: id_of(reply)? };
            let viewers: Vec<_> = (0..VIEWERS)
                .map(|_| FlakyViewer::new(&self.load.caller, &job, self.random.branch()).follow())
                .collect();
            let seen = try_join_all(viewers).await?;
            let result =
                seen.first().and_then(|viewer| viewer.events.last()).map(|done| done.fact["result"].clone());
            let status = result.as_ref().and_then(|result| result["status"].as_str()).unwrap_or("no result");
            if status != "succeeded" {
                self.load.operations.refused(Operation::Task, &format!("ended:{status}"));
            }
            self.tasks.extend(seen.into_iter().map(|viewer| SeenTask {
                job: job.clone(),
                events: viewer.events.iter().map(|event| event.seq).collect(),
            }));
        }
        self.recover(&answer, life).await;
        Ok(())
    }

    /// A snapshot, sometimes with a sandbox made of it, whose files are those of the first.
    async fn snapshot(&mut self, life: &Life) -> Result<()> {
        let answer = self.post(Operation::Snapshot, &life.path("/snapshots"), &json!({})).await;
        self.recover(&answer, life).await;
        let Answer::Done(reply) = answer else { return Ok(()) };
        let snapshot = format!("/v1/snapshots/{}", id_of(&reply)?);
        if self.random.below(2) == 0 {
            let forked = self.post(Operation::Fork, &format!("{snapshot}/fork?wait=30s"), &json!({})).await;
            if let Answer::Done(reply) = forked {
                let fork = Life { id: id_of(&reply)?, files: life.files.clone() };
                self.read(&fork).await;
                self.destroy(&fork.id).await;
            }
        }
        self.send(Operation::Destroy, Method::DELETE, &snapshot, Bytes::new()).await;
        Ok(())
    }

    /// What is not destroyed for a refusal or an outage is at the end of the run.
    async fn destroy(&self, id: &str) {
        let path = format!("/v1/sandboxes/{id}?workspace=remove");
        self.send(Operation::Destroy, Method::DELETE, &path, Bytes::new()).await;
    }
}

fn id_of(reply: &Reply) -> Result<String> {
    let view: Value = reply.json()?;
    Ok(view["id"].as_str().with_context(|| format!("no id: {view}"))?.to_owned())
}
