//! Commands in a sandbox, as the API promises them.

use anyhow::{Context, Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use hyper::{Method, Request};
use protocol::Chunk;
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use tests::output::{Followed, bytes_of};
use tests::{Caller, Hostd};

/// A hostd with one sandbox.
struct Fixture {
    hostd: Hostd,
    caller: Caller,
    id: String,
}

impl Fixture {
    async fn new(spec: &Value) -> Result<Self> {
        let hostd = Hostd::start().await?;
        let caller = hostd.operator()?;
        let id = caller.create(spec).await?;
        Ok(Self { hostd, caller, id })
    }

    /// A path below the execs of the sandbox.
    fn path(&self, rest: &str) -> String {
        format!("/v1/sandboxes/{}/execs{rest}", self.id)
    }

    /// Runs to its end.
    async fn run(&self, body: &Value) -> Result<Value> {
        self.caller.post(&self.path(""), body).await?.expect(200)
    }

    /// Starts it under this id, and waits until it has printed `sign`.
    async fn started(&self, id: &str, body: &Value, sign: &str) -> Result<()> {
        let mut body = body.clone();
        body["id"] = json!(id);
        body["wait"] = json!(false);
        let view: Value = self.caller.post(&self.path(""), &body).await?.expect(202)?;
        ensure!(view["state"] == "running" && view["id"] == id && view["exit"].is_null(), "{view}");
        self.caller.follow_until(&self.path(&format!("/{id}/output?follow=1")), sign).await.map(drop)
    }

    async fn ended(&self, id: &str) -> Result<Value> {
        let view: Value = self.caller.get(&self.path(&format!("/{id}?wait=60s"))).await?.expect(200)?;
        ensure!(view["state"] == "ended", "{view}");
        Ok(view)
    }

    /// A verb that must be done.
    async fn verb(&self, rest: &str, body: &Value) -> Result<()> {
        let reply = self.caller.post(&self.path(rest), body).await?;
        ensure!(reply.status == 204, "{rest}: {} {}", reply.status, reply.text());
        Ok(())
    }

    async fn type_in(&self, rest: &str, keys: &'static str) -> Result<u16> {
        Ok(self
            .caller
            .send(Method::POST, &self.path(rest), Bytes::from_static(keys.as_bytes()))
            .await?
            .status)
    }
}

#[tokio::test]
async fn an_exec_is_as_the_contract_says() -> Result<()> {
    let place = Fixture::new(&json!({"env": {"A": "sandbox", "B": "sandbox"}})).await?;
    let table = [
        (json!({"argv": ["printf", "%s|", "a b", "$HOME"]}), "a b|$HOME|", "", 0),
        (json!({"shell": "echo out; echo err >&2; exit 3"}), "out\n", "err\n", 3),
        (json!({"shell": "pwd"}), "/home/sandbox/workspace/app\n", "", 0),
        (json!({"shell": "pwd", "cwd": "/tmp"}), "/tmp\n", "", 0),
        (json!({"shell": "echo $A $B $C", "env": {"B": "exec", "C": "c"}}), "sandbox exec c\n", "", 0),
        (json!({"argv": ["cat"], "stdin": "über\u{0}nul"}), "über\u{0}nul", "", 0),
        (json!({"argv": ["cat"]}), "", "", 0),
        (json!({"shell": "true", "timeout_s": 50.5, "tty": false, "wait": true}), "", "", 0),
    ];
    for (body, stdout, stderr, code) in table {
        let view = place.run(&body).await?;
        ensure!(view["exit"] == json!({"kind": "exited", "code": code}), "{body}: {view}");
        ensure!(view["stdout"] == stdout && view["stderr"] == stderr, "{body}: {view}");
        let rest = [
            ("state", json!("ended")),
            ("truncated", json!(false)),
            ("hints", json!([])),
            ("tty", json!(false)),
        ];
        for (field, value) in rest {
            ensure!(view[field] == value, "{body}: {field} of {view}");
        }
        ensure!(view["encoding"].is_null() && view["duration_ms"].is_u64(), "{view}");
        let again: Value = place
            .caller
            .get(&place.path(&format!("/{}?wait=0", view["id"].as_str().context("id")?)))
            .await?
            .expect(200)?;
        ensure!(again == view, "asked later: {again}");
    }
    Ok(())
}

#[tokio::test]
async fn output_that_is_not_text_comes_as_base64_and_complete() -> Result<()> {
    let place = Fixture::new(&json!({})).await?;
    let view = place.run(&json!({"shell": r"printf 'a\377\000b'; printf text >&2"})).await?;
    ensure!(view["encoding"] == "base64", "{view}");
    let decoded = |field: &str| BASE64_STANDARD.decode(view[field].as_str().unwrap_or_default());
    ensure!(decoded("stdout")? == b"a\xff\0b" && decoded("stderr")? == b"text", "{view}");
    Ok(())
}

#[tokio::test]
async fn every_way_to_end_is_told() -> Result<()> {
    let place = Fixture::new(&json!({"limits": {"memory_mb": 64}})).await?;
    let table = [
        (json!({"shell": "exit 255"}), json!({"kind": "exited", "code": 255})),
        (json!({"shell": "kill -TERM $$"}), json!({"kind": "signalled", "signal": 15})),
        (json!({"shell": "kill -KILL $$"}), json!({"kind": "signalled", "signal": 9})),
        (json!({"shell": "sleep 1000", "timeout_s": 0.2}), json!({"kind": "timed_out"})),
        (json!({"argv": ["python3", "-c", "x = bytearray(1 << 30)"]}), json!({"kind": "oom"})),
    ];
    for (body, exit) in table {
        let view = place.run(&body).await?;
        ensure!(view["exit"] == exit, "{body}: {view}");
    }
    let view = place.run(&json!({"argv": ["/there/is/no/such"]})).await?;
    ensure!(view["exit"]["kind"] == "spawn_failed", "{view}");
    ensure!(view["exit"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{view}");
    let view = place.run(&json!({"shell": "python3 -c 'x = bytearray(1 << 30)'; exit 7"})).await?;
    ensure!(view["exit"] == json!({"kind": "exited", "code": 7}), "{view}");
    let hints = view["hints"].as_array().context("hints")?;
    ensure!(hints.iter().any(|hint| hint["kind"] == "oom_kills" && hint["times"] == 1), "{view}");
    Ok(())
}

#[tokio::test]
async fn one_id_runs_once_however_often_it_is_asked_for() -> Result<()> {
    let place = Fixture::new(&json!({})).await?;
    let body = json!({"id": "once", "shell": "echo ran >> log; sleep 0.2; echo done"});
    let calls = (0..8).map(|_| place.run(&body));
    let views = futures_util::future::try_join_all(calls).await?;
    ensure!(views.iter().all(|view| *view == views[0]) && views[0]["stdout"] == "done\n", "{views:?}");
    ensure!(place.run(&body).await? == views[0], "later too");
    ensure!(place.caller.prints(&place.id, "cat log").await? == "ran\n", "it ran more than once");
    let other = place.caller.post(&place.path(""), &json!({"id": "once", "shell": "echo other"})).await?;
    ensure!(other.status == 409 && other.code()? == ApiErrorCode::Conflict, "{}", other.text());
    Ok(())
}

#[tokio::test]
async fn an_idempotency_key_runs_a_command_once_and_gives_the_same_answer() -> Result<()> {
    let place = Fixture::new(&json!({})).await?;
    let ask = async |body: &Value| {
        let request = Request::post(place.path("")).header("idempotency-key", "k1");
        place.caller.call(request.body(Bytes::from(serde_json::to_vec(body)?).into())?).await
    };
    let body = json!({"shell": "echo x >> log; wc -l < log"});
    let (first, second) = (ask(&body).await?, ask(&body).await?);
    ensure!(first.status == 200 && first.body == second.body, "{} {}", first.text(), second.text());
    ensure!(second.headers["idempotency-replayed"] == "true", "{:?}", second.headers);
    ensure!(place.caller.prints(&place.id, "cat log").await? == "x\n");
    let other = ask(&json!({"shell": "true"})).await?;
    ensure!(other.status == 422 && other.code()? == ApiErrorCode::IdempotencyMismatch, "{}", other.text());
    Ok(())
}

#[tokio::test]
async fn output_is_followed_to_the_end_of_a_command_nobody_waits_for() -> Result<()> {
    let place = Fixture::new(&json!({})).await?;
    let line = r"echo first; read x; printf 'b\377' >&2; echo got $x";
    place.started("e1", &json!({"shell": line, "stdin_open": true}), "first").await?;
    let follow = async {
        let mut follower = place.caller.follow(&place.path("/e1/output?follow=1")).await?;
        let mut seen = Followed::default();
        while let Some(chunk) = follower.next().await? {
            seen.add(&chunk)?;
        }
        anyhow::Ok(seen)
    };
    let (seen, typed) = tokio::join!(follow, place.type_in("/e1/stdin?eof=1", "word\n"));
    let seen = seen?;
    ensure!(typed? == 204 && seen.ended && seen.lost == 0, "{seen:?}");
    ensure!(seen.stdout == b"first\ngot word\n" && seen.stderr == b"b\xff", "{seen:?}");
    let tail = place.caller.get(&place.path("/e1/output?tail=1&stream=stdout")).await?;
    let first: Chunk = serde_json::from_str(tail.text().lines().next().context("a line")?)?;
    let Chunk::Output { payload, .. } = first else { anyhow::bail!("{first:?}") };
    ensure!(bytes_of(&payload)? == b"got word\n");
    let request = Request::get(place.path("/e1/output")).header("accept", "application/octet-stream");
    let raw = place.caller.call(request.body(Bytes::new().into())?).await?;
    ensure!(raw.status == 200 && raw.body.len() == seen.cursor as usize, "{}", raw.text());
    Ok(())
}

#[tokio::test]
async fn input_comes_in_parts_and_ends_when_told() -> Result<()> {
    let place = Fixture::new(&json!({})).await?;
    place.started("cat", &json!({"shell": "echo ready; cat", "stdin_open": true}), "ready").await?;
    for part in ["one ", "two "] {
        ensure!(place.type_in("/cat/stdin", part).await? == 204);
    }
    place.caller.follow_until(&place.path("/cat/output?follow=1"), "one two ").await?;
    ensure!(place.type_in("/cat/stdin?eof=1", "three").await? == 204);
    let view = place.ended("cat").await?;
    ensure!(view["stdout"] == "ready\none two three" && view["exit"]["code"] == 0, "{view}");
    ensure!(place.type_in("/cat/stdin", "late").await? == 409, "it has ended");
    Ok(())
}

#[tokio::test]
async fn a_running_command_is_signalled_and_cancelled() -> Result<()> {
    let place = Fixture::new(&json!({})).await?;
    let patient =
        json!({"shell": "trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.05; done"});
    place.started("a", &patient, "ready").await?;
    place.verb("/a/signal", &json!({"signal": "USR1"})).await?;
    let view = place.ended("a").await?;
    ensure!(
        view["exit"] == json!({"kind": "exited", "code": 5}) && view["stdout"] == "ready\ncaught\n",
        "{view}"
    );

    let stubborn =
        json!({"shell": "trap '' TERM; setsid sleep 999 & echo ready; while :; do sleep 0.05; done"});
    place.started("b", &stubborn, "ready").await?;
    place.verb("/b/cancel", &json!({"grace_ms": 50})).await?;
    let view = place.ended("b").await?;
    ensure!(view["exit"] == json!({"kind": "cancelled"}), "{view}");
    let left = place.caller.prints(&place.id, "pgrep -c sleep || true").await?;
    ensure!(left == "0\n", "what it started is left: {left}");
    let late = place.caller.post(&place.path("/b/signal"), &json!({"signal": "TERM"})).await?;
    ensure!(late.status == 409 && late.code()? == ApiErrorCode::NotRunning, "{}", late.text());
    let unknown = place.caller.post(&place.path("/zzz/cancel"), &json!({})).await?;
    ensure!(unknown.status == 404, "{}", unknown.text());
    Ok(())
}

#[tokio::test]
async fn more_output_than_an_answer_holds_is_cut_and_said_so_and_the_log_has_all() -> Result<()> {
    let place = Fixture::new(&json!({})).await?;
    let view = place.run(&json!({"id": "big", "shell": "seq 9999999 | head -c 6000000"})).await?;
    ensure!(view["truncated"] == true && view["exit"]["code"] == 0, "{}", view["exit"]);
    let shown = view["stdout"].as_str().context("output")?.len();
    ensure!(shown < tests::seq(6_000_000).len(), "{shown}");
    let request = Request::get(place.path("/big/output")).header("accept", "application/octet-stream");
    let raw = place.caller.call(request.body(Bytes::new().into())?).await?;
    ensure!(raw.body == tests::seq(6_000_000), "{} bytes", raw.body.len());
    Ok(())
}

#[tokio::test]
async fn a_command_whose_sandbox_dies_is_lost_and_its_caller_is_told() -> Result<()> {
    let place = Fixture::new(&json!({})).await?;
    let waited = async { place.run(&json!({"id": "w", "shell": "echo begun; sleep 1000"})).await };
    let killed = async {
        place.caller.until(&place.path(""), |page| page["items"][0]["id"] == "w").await?;
        place.caller.follow_until(&place.path("/w/output?follow=1"), "begun").await?;
        place.hostd.kill_init(&place.id)
    };
    let (view, killed) = tokio::join!(waited, killed);
    killed?;
    let view = view?;
    ensure!(view["exit"] == json!({"kind": "lost"}) && view["state"] == "ended", "{view}");
    let later: Value = place.caller.get(&place.path("/w")).await?.expect(200)?;
    ensure!(later["exit"] == json!({"kind": "lost"}), "{later}");
    Ok(())
}

#[tokio::test]
async fn a_stop_ends_running_commands_and_says_how() -> Result<()> {
    let place = Fixture::new(&json!({})).await?;
    place.started("s", &json!({"shell": "echo ready; sleep 1000"}), "ready").await?;
    let stop = format!("/v1/sandboxes/{}/stop", place.id);
    place.caller.post(&stop, &json!({})).await?.expect::<Value>(200)?;
    let view = place.caller.until(&place.path("/s"), |view| view["state"] == "ended").await?;
    ensure!(["cancelled", "lost"].map(Value::from).contains(&view["exit"]["kind"]), "{view}");
    // The end of an exec that hostd missed is in the log of its runtimed.
    let start = format!("/v1/sandboxes/{}/start", place.id);
    place.caller.post(&start, &json!({})).await?.expect::<Value>(200)?;
    place.caller.until(&place.path("/s"), |view| view["exit"]["kind"] == "cancelled").await?;
    Ok(())
}

#[tokio::test]
async fn execs_are_listed_newest_first_with_a_cursor() -> Result<()> {
    let place = Fixture::new(&json!({})).await?;
    for n in 0..5 {
        place.run(&json!({"id": format!("e{n}"), "shell": "true"})).await?;
    }
    let (mut seen, mut query) = (Vec::new(), "?limit=2".to_owned());
    loop {
        let page: Value = place.caller.get(&place.path(&query)).await?.expect(200)?;
        let items = page["items"].as_array().context("a list")?;
        ensure!(items.len() <= 2 && items.iter().all(|exec| exec["exit"]["code"] == 0), "{page}");
        seen.extend(items.iter().filter_map(|exec| exec["id"].as_str().map(str::to_owned)));
        let Some(next) = page["next"].as_str() else { break };
        query = format!("?limit=2&after={next}");
    }
    ensure!(seen == ["e4", "e3", "e2", "e1", "e0"], "{seen:?}");
    ensure!(place.caller.get(&place.path("/none")).await?.status == 404);
    Ok(())
}

#[tokio::test]
async fn execs_are_found_by_the_pid_of_their_command() -> Result<()> {
    let place = Fixture::new(&json!({})).await?;
    let ended = place.run(&json!({"id": "ended", "shell": "echo $$"})).await?;
    let pid = ended["pid"].as_u64().context("a pid")?;
    ensure!(ended["stdout"] == format!("{pid}\n"), "{ended}");
    place.started("running", &json!({"shell": "echo up; exec sleep 1000"}), "up").await?;
    let ids = async |query: &str| -> Result<Vec<String>> {
        let page: Value = place.caller.get(&place.path(query)).await?.expect(200)?;
        let items = page["items"].as_array().context("a list")?;
        Ok(items.iter().filter_map(|exec| exec["id"].as_str().map(str::to_owned)).collect())
    };
    ensure!(ids(&format!("?pid={pid}")).await? == ["ended"]);
    ensure!(ids("?pid=4000000").await?.is_empty());
    ensure!(ids("?running=true").await? == ["running"]);
    ensure!(ids("").await? == ["running", "ended"]);
    ensure!(place.caller.get(&place.path("?pid=0")).await?.status == 400);
    Ok(())
}

#[tokio::test]
async fn a_wrong_exec_is_refused_by_the_name_of_its_field_and_its_id_stays_free() -> Result<()> {
    let place = Fixture::new(&json!({})).await?;
    let table = [
        (json!({}), "argv"),
        (json!({"argv": []}), "argv"),
        (json!({"argv": ["a"], "shell": "b"}), "shell"),
        (json!({"shell": "a", "timeout_s": 0}), "timeout_s"),
        (json!({"shell": "a", "timout_s": 1}), "timout_s"),
        (json!({"shell": "a", "env": {"A=B": "c"}}), "env.A=B"),
        (json!({"shell": "a", "tty": {"cols": 0, "rows": 1}}), "tty.cols"),
        (json!({"shell": "a", "tty": {"cols": 1, "rows": 1, "depth": 1}}), "tty.depth"),
        (json!({"shell": "a", "id": "../x"}), "id"),
    ];
    for (mut body, field) in table {
        if body["id"].is_null() {
            body["id"] = json!("free");
        }
        let reply = place.caller.post(&place.path(""), &body).await?;
        let error = reply.error().with_context(|| body.to_string())?;
        ensure!(
            reply.status == 400 && error.detail.field.as_deref() == Some(field),
            "{body}: {}",
            reply.text()
        );
    }
    ensure!(place.run(&json!({"id": "free", "shell": "echo fine"})).await?["stdout"] == "fine\n");
    Ok(())
}
