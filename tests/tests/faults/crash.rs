//! kill -9 of hostd, at every commit it makes and at moments that chance picks: nothing that was answered is
//! lost, nothing is done twice, nothing is left behind. Then SIGTERM, which it hears.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::future::join_all;
use hostd_store::failpoint::{NAMES, VARIABLE};
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;
use tests::host::{all_events, until, whole};
use tests::{Caller, Hostd, Job, Random, Reply, messages, scaled};

/// Jobs of the store, in groups that are tried side by side. Each has a point on both sides of its commit.
const OF_SANDBOXES: [&str; 2] = ["insert_sandbox", "move_sandbox"];
const OF_ATTEMPTS: [&str; 3] = ["begin_attempt", "attempt_launched", "end_attempt"];
const OF_EXECS: [&str; 3] = ["begin_exec", "end_exec", "append_events"];
const OF_TASKS: [&str; 7] = [
    "begin_task",
    "task_taken",
    "task_given",
    "append_task",
    "record_task_changes",
    "cancel_task",
    "conclude_task",
];
const OF_QUOTAS: [&str; 2] = ["put_quota", "replace_sandbox"];
const OF_MODELS: [&str; 2] = ["put_provider", "put_budget"];
/// These need an agent and its model; the tests of the store itself die there.
const OF_AGENTS: [&str; 2] = ["call_ended", "judge_task"];
const OF_CALLS: [&str; 3] = ["insert_token", "idempotency_begin", "idempotency_finish"];

#[test]
fn every_point_where_hostd_can_be_cut_off_is_tried() {
    let tried = [
        &OF_SANDBOXES[..],
        &OF_ATTEMPTS,
        &OF_EXECS,
        &OF_TASKS,
        &OF_QUOTAS,
        &OF_MODELS,
        &OF_AGENTS,
        &OF_CALLS,
    ]
    .concat();
    let points: BTreeSet<String> = tried.iter().flat_map(|job| points_of(job)).collect();
    assert_eq!(points, NAMES.iter().map(|name| (*name).to_owned()).collect());
}

#[tokio::test]
async fn cut_off_while_it_writes_a_sandbox_it_goes_on_where_it_was() -> Result<()> {
    cut_off_at(&OF_SANDBOXES).await
}

#[tokio::test]
async fn cut_off_while_it_writes_an_attempt_it_goes_on_where_it_was() -> Result<()> {
    cut_off_at(&OF_ATTEMPTS).await
}

#[tokio::test]
async fn cut_off_while_it_writes_an_exec_or_events_it_goes_on_where_it_was() -> Result<()> {
    cut_off_at(&OF_EXECS).await
}

#[tokio::test]
async fn cut_off_while_it_writes_a_task_it_goes_on_where_it_was() -> Result<()> {
    cut_off_at(&OF_TASKS).await
}

#[tokio::test]
async fn cut_off_while_it_writes_a_quota_or_a_replacement_it_goes_on_where_it_was() -> Result<()> {
    cut_off_at(&OF_QUOTAS).await
}

#[tokio::test]
async fn cut_off_while_it_writes_a_provider_or_a_budget_it_goes_on_where_it_was() -> Result<()> {
    cut_off_at(&OF_MODELS).await
}

#[tokio::test]
async fn cut_off_while_it_writes_a_token_or_a_key_it_goes_on_where_it_was() -> Result<()> {
    cut_off_at(&OF_CALLS).await
}

fn points_of(job: &str) -> [String; 2] {
    ["before_commit", "after_commit"].map(|side| format!("store.{job}.{side}"))
}

async fn cut_off_at(jobs: &[&str]) -> Result<()> {
    let mut hostd = Hostd::start().await?;
    for nth in 1..=scaled(1, 4) {
        for point in jobs.iter().flat_map(|job| points_of(job)) {
            let point = format!("{point}:{nth}");
            let first = hostd.local().create(&json!({"name": "first"})).await?;
            die_at(&mut hostd, &point, &first, nth == 1).await.with_context(|| point.clone())?;
            hostd.crash().await?;
            let done = async {
                taken_up(&hostd.local()).await?;
                // The same calls again: what was done is not done again, what was not is done now.
                let second = work(&hostd, &first, &point).await?;
                check(&hostd, &[first, second]).await
            };
            done.await.with_context(|| point.clone())?;
        }
    }
    Ok(())
}

/// Works until hostd dies at the point. A first one must be reached; later ones may not be.
async fn die_at(hostd: &mut Hostd, point: &str, first: &str, certain: bool) -> Result<()> {
    // hostd may die before it serves; then it has accepted nothing.
    let worked = match hostd.again_with(&[(VARIABLE, point)]).await {
        Ok(()) => work(hostd, first, point).await.map(drop),
        Err(error) => Err(error),
    };
    match worked {
        Ok(()) if !certain => hostd.kill().await,
        _ => {
            let status = hostd.ended().await?;
            ensure!(status.signal() == Some(9), "hostd ended with {status}: {worked:?}");
            Ok(())
        }
    }
}

/// Ordinary work that comes past every point. Each call is safe to repeat: it has an id, a key, or says how
/// things should be. Gives the id of the sandbox it makes.
async fn work(hostd: &Hostd, first: &str, key: &str) -> Result<String> {
    let caller = &hostd.local();
    let token = json!({"tenant": "acme", "principal": "crash", "scope": "run"});
    caller.post("/v1/tokens", &token).await?.expect::<Value>(201)?;
    let provider = json!({"key": "sk-of-a-test", "models": [{"name": "m"}], "verify": false});
    caller.put("/v1/model-providers/openai", &provider).await?.expect::<Value>(200)?;
    let budget = json!({"requests": 9, "per": "day"});
    caller.put("/v1/budgets/acme", &budget).await?.expect::<Value>(200)?;
    caller.put("/v1/quotas/acme", &json!({"sandboxes": 9})).await?.expect::<Value>(200)?;
    replace(caller, key).await?;
    let made: Value = keyed(caller, "/v1/sandboxes", key, &json!({"name": "second"})).await?.expect(201)?;
    let second = made["id"].as_str().context("an id")?.to_owned();
    let once = json!({"id": "once", "shell": "echo ran >> /home/sandbox/ran"});
    exited(&caller.post(&format!("/v1/sandboxes/{first}/execs"), &once).await?)?;
    let once = json!({"shell": "echo ran >> /home/sandbox/ran"});
    exited(&keyed(caller, &format!("/v1/sandboxes/{second}/execs"), key, &once).await?)?;
    work_on_tasks(caller, first).await?;
    for verb in ["stop", "start"] {
        caller.post(&format!("/v1/sandboxes/{first}/{verb}"), &json!({})).await?.expect::<Value>(200)?;
    }
    lose(hostd, &second).await?;
    caller.post(&format!("/v1/sandboxes/{second}/start"), &json!({})).await?.expect::<Value>(200)?;
    Ok(second)
}

/// Makes a sandbox, another one in its place, and takes that away again.
async fn replace(caller: &Caller, key: &str) -> Result<()> {
    let mut last = String::new();
    for nth in ["a", "b"] {
        let (path, body) = ("/v1/sandboxes?replace=true", json!({"name": "third"}));
        let made: Value = keyed(caller, path, &format!("{key}-{nth}"), &body).await?.expect(201)?;
        last = made["id"].as_str().context("an id")?.to_owned();
    }
    caller.delete(&format!("/v1/sandboxes/{last}")).await?.expect::<Value>(200)?;
    until("both are gone", async || {
        let page: Value = caller.get("/v1/sandboxes?limit=1000").await?.expect(200)?;
        let left = page["items"].as_array().context("items")?.iter().any(|one| one["name"] == "third");
        Ok((!left).then_some(()))
    })
    .await
}

/// A task that runs to its end, and one whose end is wanted. Both are told whole, and ran once.
async fn work_on_tasks(caller: &Caller, sandbox: &str) -> Result<()> {
    let line = "echo ran >> ../task-ran; echo one; echo two";
    let whole = json!({"id": "whole", "prompt": "x", "command": ["sh", "-c", line]});
    let job = caller.submit(sandbox, &whole).await?;
    let events = caller.events_of(&job).await?;
    ensure!(messages(&events) == ["one", "two"], "{events:?}");
    ensure!(caller.prints(sandbox, "cat ../task-ran").await? == "ran\n", "it ran twice");
    let changes: Value = caller.get(&format!("{}/changes", job.path())).await?.expect(200)?;
    ensure!(changes["state"] == "recorded" && changes["files"] == json!([]), "{changes}");
    let ended = json!({"id": "ended", "prompt": "x", "command": ["sleep", "100000"]});
    let job = caller.submit(sandbox, &ended).await?;
    let cancelled = caller.post(&format!("{}/cancel", job.path()), &json!({})).await?;
    ensure!(matches!(cancelled.status, 200 | 202), "{}", cancelled.text());
    let result = caller.result_of(&job).await?;
    ensure!(result["status"] == "cancelled", "{result}");
    Ok(())
}

/// An exec and a task whose sandbox dies under them while their caller waits.
async fn lose(hostd: &Hostd, sandbox: &str) -> Result<()> {
    let caller = hostd.local();
    let doomed = json!({"id": "doomed", "prompt": "x", "command": ["sleep", "100000"]});
    let doomed = caller.submit(sandbox, &doomed).await?;
    until("the task is taken", async || {
        let task: Value = caller.get(&doomed.path()).await?.expect(200)?;
        Ok((task["phase"] == "agent" || task["phase"] == "done").then_some(()))
    })
    .await?;
    let path = format!("/v1/sandboxes/{sandbox}/execs");
    let ask = json!({"id": "lost", "argv": ["sleep", "100000"]});
    let kill = async {
        let exec = until("the exec runs", async || {
            let reply = caller.get(&format!("{path}/lost")).await?;
            Ok(if reply.status == 200 { Some(reply.json::<Value>()?) } else { None })
        });
        let running = exec.await?["state"] == "running";
        // On a repetition the process is already dead, and its pid may have been reused.
        let alive = hostd
            .init(sandbox)
            .is_ok_and(|pid| hostd.processes().is_ok_and(|all| all.contains(&pid.as_raw())));
        if running && alive { hostd.kill_init(sandbox) } else { Ok(()) }
    };
    let (answer, killed) = tokio::join!(caller.post(&path, &ask), kill);
    let exec: Value = answer?.expect(200)?;
    ensure!(exec["exit"]["kind"] == "lost", "{exec}");
    killed?;
    let result = caller.result_of(&doomed).await?;
    ensure!(result["failure_reason"] == "lost", "{result}");
    Ok(())
}

async fn keyed(caller: &Caller, path: &str, key: &str, body: &Value) -> Result<Reply> {
    let body = Full::new(Bytes::from(serde_json::to_vec(body)?));
    caller.call(Request::post(path).header("idempotency-key", key).body(body)?).await
}

fn exited(reply: &Reply) -> Result<()> {
    let exec: Value = reply.expect(200)?;
    ensure!(exec["exit"] == json!({"kind": "exited", "code": 0}), "{exec}");
    Ok(())
}

/// Exactly these sandboxes are there and run, each command ran once, the log is whole, and after they were
/// destroyed nothing is left.
async fn check(hostd: &Hostd, made: &[String]) -> Result<()> {
    let caller = hostd.local();
    let expected: BTreeSet<String> = made.iter().cloned().collect();
    ensure!(live(&caller).await? == expected, "{:?} in place of {expected:?}", live(&caller).await?);
    for id in made {
        let ran = caller.prints(id, "cat /home/sandbox/ran").await?;
        ensure!(ran == "ran\n", "{id} ran it {} times", ran.lines().count());
    }
    taken_up(&caller).await?;
    holds_only(hostd, &expected).await?;
    for id in made {
        caller.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
    }
    hostd.holds_only(&BTreeSet::new(), &BTreeSet::new())?;
    whole(&all_events(&caller).await?)
}

/// These run and nothing else is there. What the last hostd had on its way out, the next one takes away while it
/// serves already.
async fn holds_only(hostd: &Hostd, running: &BTreeSet<String>) -> Result<()> {
    until("the trash is empty", async || Ok(hostd.traces()?.trash.is_empty().then_some(()))).await?;
    hostd.holds_only(running, running)
}

/// Everything that was being done is done by the next hostd, and no attempt stays open.
async fn taken_up(caller: &Caller) -> Result<()> {
    for id in live(caller).await? {
        let started = caller.post(&format!("/v1/sandboxes/{id}/start"), &json!({})).await?;
        // One that was being destroyed when hostd died still is.
        if started.status == 410 {
            continue;
        }
        started.expect::<Value>(200)?;
        let attempts: Value = caller.get(&format!("/v1/sandboxes/{id}/attempts")).await?.expect(200)?;
        let open = attempts["items"].as_array().context("items")?.iter().any(|one| one["state"] == "open");
        ensure!(!open, "an attempt is still open: {attempts}");
    }
    Ok(())
}

/// Ids of all that are not destroyed.
async fn live(caller: &Caller) -> Result<BTreeSet<String>> {
    let page: Value = caller.get("/v1/sandboxes?limit=1000").await?.expect(200)?;
    let ids = page["items"].as_array().context("items")?.iter();
    Ok(ids.filter_map(|one| one["id"].as_str().map(str::to_owned)).collect())
}

/// A client's sandbox under load, and the commands that ran in it.
struct LoadedSandbox {
    id: String,
    ran: Vec<String>,
    tasks: Vec<Job>,
}

#[derive(Debug, Clone)]
enum Act {
    Create(String),
    Exec(usize, String),
    Task(usize, String),
    Verb(usize, &'static str),
    Destroy(usize),
}

/// A caller that does this and that, and remembers what it was doing when hostd died.
struct Load {
    name: usize,
    random: Random,
    acts: u64,
    mine: Vec<LoadedSandbox>,
    unanswered: Option<Act>,
}

impl Load {
    fn next(&mut self) -> Act {
        self.acts += 1;
        let name = format!("{}-{}", self.name, self.acts);
        let at = self.random.below(self.mine.len() as u64) as usize;
        match self.random.below(10) {
            _ if self.mine.is_empty() => Act::Create(name),
            0..2 if self.mine.len() < 3 => Act::Create(name),
            2 => Act::Destroy(at),
            3 => Act::Verb(at, "stop"),
            4 => Act::Verb(at, "start"),
            5..7 => Act::Task(at, name),
            _ => Act::Exec(at, name),
        }
    }

    /// Works until hostd does not answer any more. An answer that is wrong is an error.
    async fn until_it_dies(&mut self, caller: &Caller) -> Result<()> {
        loop {
            let act = self.next();
            self.unanswered = Some(act.clone());
            let Ok(reply) = self.send(caller, &act).await else { return Ok(()) };
            self.answered(&act, &reply).with_context(|| format!("{act:?}"))?;
        }
    }

    async fn send(&self, caller: &Caller, act: &Act) -> Result<Reply> {
        let path = |at: &usize| format!("/v1/sandboxes/{}", self.mine[*at].id);
        match act {
            Act::Create(key) => keyed(caller, "/v1/sandboxes", key, &json!({"name": key})).await,
            Act::Exec(at, id) => {
                let line = json!({"id": id, "shell": format!("echo {id} >> /home/sandbox/ran")});
                caller.post(&format!("{}/execs", path(at)), &line).await
            }
            Act::Task(at, id) => {
                let body = json!({"id": id, "prompt": "x", "command": ["seq", "100"], "build": ""});
                caller.post(&format!("{}/tasks", path(at)), &body).await
            }
            Act::Verb(at, verb) => caller.post(&format!("{}/{verb}", path(at)), &json!({})).await,
            Act::Destroy(at) => caller.delete(&path(at)).await,
        }
    }

    fn answered(&mut self, act: &Act, reply: &Reply) -> Result<()> {
        match act {
            Act::Create(_) => {
                let view: Value = reply.expect(201)?;
                ensure!(view["status"] == "running", "{view}");
                let id = view["id"].as_str().context("an id")?.to_owned();
                self.mine.push(LoadedSandbox { id, ran: vec![], tasks: vec![] });
            }
            Act::Exec(at, id) => {
                exited(reply)?;
                self.mine[*at].ran.push(id.clone());
            }
            Act::Task(at, id) => {
                reply.expect::<Value>(202)?;
                let one = &mut self.mine[*at];
                one.tasks.push(Job { sandbox: one.id.clone(), id: id.clone() });
            }
            Act::Verb(..) => drop(reply.expect::<Value>(200)?),
            Act::Destroy(at) => {
                reply.expect::<Value>(200)?;
                self.mine.swap_remove(*at);
            }
        }
        self.unanswered = None;
        Ok(())
    }

    /// Repeats what was not answered; then everything that was is as it was told.
    async fn check(&mut self, caller: &Caller) -> Result<()> {
        if let Some(act) = self.unanswered.take() {
            let reply = self.send(caller, &act).await?;
            self.answered(&act, &reply).with_context(|| format!("again {act:?}"))?;
        }
        for one in &self.mine {
            caller
                .post(&format!("/v1/sandboxes/{}/start", one.id), &json!({}))
                .await?
                .expect::<Value>(200)?;
            let ran = caller.prints(&one.id, "cat /home/sandbox/ran 2>/dev/null || true").await?;
            let ran: Vec<&str> = ran.lines().collect();
            ensure!(ran == one.ran, "{} ran {ran:?} in place of {:?}", one.id, one.ran);
            for job in &one.tasks {
                let events = caller.events_of(job).await?;
                let numbers = messages(&events).into_iter().zip(1..).all(|(text, n)| text == n.to_string());
                ensure!(numbers, "{events:?}");
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn killed_at_any_moment_under_load_it_loses_nothing_and_leaks_nothing() -> Result<()> {
    let mut random = Random::seeded();
    let mut hostd = Hostd::start().await?;
    let mut load = |name| Load { name, random: random.branch(), acts: 0, mine: vec![], unanswered: None };
    let mut loads: Vec<Load> = (0..4).map(&mut load).collect();
    for round in 0..scaled(5, 200) {
        // The moment is what chance picks; nothing waits for it.
        let moment = Duration::from_micros(random.below(500_000));
        let caller = hostd.local();
        let work = join_all(loads.iter_mut().map(|load| load.until_it_dies(&caller)));
        let (worked, killed) = tokio::join!(work, async {
            tokio::time::sleep(moment).await;
            hostd.kill().await
        });
        killed?;
        worked.into_iter().collect::<Result<()>>().with_context(|| format!("round {round}"))?;
        hostd.crash().await?;
        let checked = join_all(loads.iter_mut().map(|load| load.check(&caller))).await;
        checked.into_iter().collect::<Result<()>>().with_context(|| format!("round {round}"))?;
        let all = loads.iter().flat_map(|load| load.mine.iter().map(|one| one.id.clone())).collect();
        ensure!(live(&caller).await? == all, "{:?} in place of {all:?}", live(&caller).await?);
        holds_only(&hostd, &all).await.with_context(|| format!("round {round}"))?;
    }
    whole(&all_events(&hostd.local()).await?)
}

#[tokio::test]
async fn a_running_command_outlives_sigterm_and_its_output_goes_on_at_the_cursor() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let id = hostd.local().create(&json!({})).await?;
    let execs = format!("/v1/sandboxes/{id}/execs");
    let ask = json!({"id": "echo", "shell": "while read x; do echo got $x; done", "stdin_open": true, "wait": false});
    hostd.local().post(&execs, &ask).await?.expect::<Value>(202)?;
    let input = format!("{execs}/echo/stdin");
    hostd.local().send(hyper::Method::POST, &input, "one\n".into()).await?;
    let mut follower = hostd.local().follow(&format!("{execs}/echo/output?follow=1")).await?;
    let protocol::Chunk::Output { cursor, payload, .. } = follower.next().await?.context("a chunk")? else {
        anyhow::bail!("the first chunk is no output");
    };
    ensure!(payload.data == "got one\n", "{payload:?}");

    let status = hostd.terminate().await?;
    ensure!(status.code() == Some(0), "hostd ended with {status}: {}", hostd.said());
    ensure!(follower.next().await.is_err(), "a stream that is cut off must not look complete");
    hostd.crash().await?;
    hostd.local().send(hyper::Method::POST, &format!("{input}?eof=1"), "two\n".into()).await?;
    let all = hostd.local().get(&format!("{execs}/echo?wait=30s")).await?.expect::<Value>(200)?;
    ensure!(all["stdout"] == "got one\ngot two\n" && all["exit"]["code"] == 0, "{all}");
    let rest =
        hostd.local().follow_until(&format!("{execs}/echo/output?after={cursor}"), "got two\n").await?;
    ensure!(rest == "got two\n", "{rest:?}");
    whole(&all_events(&hostd.local()).await?)
}
