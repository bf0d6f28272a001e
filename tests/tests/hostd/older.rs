//! The older routes, as clients of the system before know them: paths, shapes, times and errors.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use tests::sandbox::PATIENCE;
use tests::{Caller, Hostd, Reply};
use tokio::time::timeout;

const ID: &str = "01JB9XYZABCDEFGHJKMNPQRSTV";

/// Everything a row has.
const ROW: &[&str] = &[
    "id",
    "status",
    "image",
    "workspace_img",
    "workspace_mnt",
    "container_id",
    "cgroup_path",
    "memory_high",
    "error_message",
    "ports",
    "created_at",
    "updated_at",
    "last_active_at",
    "stopped_at",
    "keepalive_until",
    "container_ip",
    "external_user_id",
    "external_project_id",
    "external_workspace_id",
    "visibility",
    "idle_policy",
];

async fn made(caller: &Caller, body: &Value) -> Result<Value> {
    caller.post("/sandbox", body).await?.expect(201)
}

async fn id_of_new(caller: &Caller) -> Result<String> {
    Ok(made(caller, &json!({})).await?["id"].as_str().context("an id")?.to_owned())
}

async fn exec(caller: &Caller, id: &str, cmd: &[&str]) -> Result<Value> {
    caller.post(&format!("/sandbox/{id}/exec"), &json!({ "cmd": cmd })).await?.expect(200)
}

/// The text of an error in the older shape.
fn error(reply: &Reply, status: u16) -> Result<String> {
    let body: Value = reply.expect(status)?;
    Ok(body["error"].as_str().with_context(|| format!("no text: {body}"))?.to_owned())
}

fn now_s() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

#[tokio::test]
async fn a_sandbox_is_made_as_asked_and_shown_as_a_row() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.caller("acme", "ann", "run").await?;
    let body = json!({
        "id": ID, "ports": [3000, 5173], "memory_high": "1G", "visibility": "private",
        "external": {"user_id": "u1", "project_id": "p1", "workspace_id": "w1"},
        "env": {"GREETING": "hi"}, "idle_policy": "always_on",
    });
    let row = made(&caller, &body).await?;
    let names: Vec<&String> = row.as_object().context("an object")?.keys().collect();
    ensure!(names.len() == ROW.len() && ROW.iter().all(|name| row.get(name).is_some()), "{names:?}");
    let expected = json!({
        "id": ID.to_lowercase(), "status": "running", "image": "host", "memory_high": "1G",
        "ports": [3000, 5173], "error_message": "", "external_user_id": "u1",
        "external_project_id": "p1", "external_workspace_id": "w1", "visibility": "private",
        "idle_policy": "always_on", "stopped_at": null, "keepalive_until": null,
    });
    for (name, value) in expected.as_object().context("an object")? {
        ensure!(row[name] == *value, "{name}: {row}");
    }
    ensure!(
        row["created_at"].as_str().is_some_and(|text| text.contains('T') && text.ends_with('Z')),
        "{row}"
    );
    let active = row["last_active_at"].as_u64().context("seconds")?;
    ensure!(active.abs_diff(now_s()?) < 600, "{row}");
    let said = exec(&caller, ID, &["sh", "-c", "echo $GREETING"]).await?;
    ensure!(said == json!({"stdout": "hi\n", "stderr": "", "exit_code": 0}), "{said}");
    // The same sandbox in version 1.
    let view = caller.sandbox(&ID.to_lowercase()).await?;
    ensure!(view["limits"]["memory_mb"] == 1024 && view["metadata"]["external_user_id"] == "u1", "{view}");
    let again = caller.post("/sandbox", &json!({"id": ID.to_lowercase()})).await?;
    error(&again, 409)?;
    Ok(())
}

#[tokio::test]
async fn an_empty_body_is_enough_and_what_cannot_be_honoured_is_named() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.caller("acme", "ann", "run").await?;
    let reply = caller.send(hyper::Method::POST, "/sandbox", Bytes::new()).await?;
    let row: Value = reply.expect(201)?;
    let right = row["external_user_id"] == "local" && row["visibility"] == "public";
    ensure!(right && row["idle_policy"] == "sleep" && row["ports"] == json!([]), "{row}");
    let table = [
        (json!({"image": "x"}), "image"),
        (json!({"template": "react"}), "template"),
        (json!({"template_path": "library/x"}), "template_path"),
        (json!({"git": {"repo_url": "https://x"}}), "git"),
        (json!({"git_remote_url": "https://x"}), "git_remote_url"),
        (json!({"app_id": "x"}), "app_id"),
        (json!({"runtime_preset": "x"}), "runtime_preset"),
        (json!({"id": "short"}), "id"),
        (json!({"ports": [0]}), "ports"),
        (json!({"ports": [70000]}), "ports"),
        (json!({"memory_high": "lots"}), "memory_high"),
        (json!({"memory_high": "9000T"}), "memory_high"),
        (json!({"visibility": "secret"}), "visibility"),
        (json!({"idle_policy": "never"}), "idle_policy"),
        (json!({"external": {"user_id": "a,b"}}), "external.user_id"),
        (json!({"env": {"A=B": "x"}}), "env"),
        (json!({"nonsense": 1}), "nonsense"),
    ];
    for (body, field) in table {
        let text = error(&caller.post("/sandbox", &body).await?, 400)?;
        ensure!(text.contains(field), "{body}: {text}");
    }
    let rows: Value = caller.get("/sandboxes").await?.expect(200)?;
    ensure!(rows.as_array().is_some_and(|rows| rows.len() == 1), "nothing was made: {rows}");
    Ok(())
}

#[tokio::test]
async fn the_list_has_all_of_the_caller_and_filters_by_external_identity() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (ann, bob) = (hostd.caller("a", "ann", "run").await?, hostd.caller("b", "bob", "run").await?);
    let mut ids = Vec::new();
    for (user, project) in [("u1", "p1"), ("u1", "p2"), ("u2", "p1")] {
        let row = made(&ann, &json!({"external": {"user_id": user, "project_id": project}})).await?;
        ids.push(row["id"].as_str().context("an id")?.to_owned());
    }
    id_of_new(&bob).await?;
    let table: [(&str, &[usize]); 6] = [
        ("", &[2, 1, 0]),
        ("?external_user_id=u1", &[1, 0]),
        ("?external_project_id=p1", &[2, 0]),
        ("?external_user_id=u1&external_project_id=p1", &[0]),
        ("?external_user_id=u%27%3B--", &[]),
        ("?external_user_id=local", &[]),
    ];
    for (query, expected) in table {
        let rows: Value = ann.get(&format!("/sandboxes{query}")).await?.expect(200)?;
        let found = rows.as_array().context("an array")?.iter().filter_map(|row| row["id"].as_str());
        let found: Vec<&str> = found.collect();
        let expected: Vec<&str> = expected.iter().map(|at| ids[*at].as_str()).collect();
        ensure!(found == expected, "{query}: {found:?}");
    }
    error(&ann.get("/sandboxes?user=u1").await?, 400)?;
    Ok(())
}

#[tokio::test]
async fn one_sandbox_is_a_row_with_what_runs_and_what_its_pid_1_tells() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.caller("acme", "ann", "run").await?;
    let id = id_of_new(&caller).await?;
    for path in [format!("/sandbox/{id}"), format!("/sandbox/{}", id.to_uppercase())] {
        let shown: Value = caller.get(&path).await?.expect(200)?;
        ensure!(shown["row"]["id"] == json!(id) && shown["row"]["status"] == "running", "{shown}");
        ensure!(shown["live_state"]["running"] == true && shown["runtime"]["pid1"] == true, "{shown}");
    }
    for (verb, live) in [("pause", true), ("stop", false)] {
        caller.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect::<Value>(200)?;
        let shown: Value = caller.get(&format!("/sandbox/{id}")).await?.expect(200)?;
        let row = &shown["row"];
        ensure!(row["status"] == "stopped" && row["stopped_at"].is_u64(), "{verb}: {shown}");
        ensure!(shown["live_state"].is_object() == live && shown.get("runtime").is_none(), "{verb}: {shown}");
    }
    Ok(())
}

#[tokio::test]
async fn delete_keeps_the_files_and_purge_takes_them_and_says_how_many_bytes() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.caller("acme", "ann", "run").await?;
    let id = id_of_new(&caller).await?;
    let fill = &["sh", "-c", "head -c 3000000 /dev/urandom > ~/file; ln ~/file ~/again"];
    ensure!(exec(&caller, &id, fill).await?["exit_code"] == 0);
    let gone = caller.delete(&format!("/sandbox/{id}")).await?;
    ensure!(gone.status == 204 && gone.body.is_empty(), "{}", gone.text());
    ensure!(hostd.workspace(&id).join("file").exists(), "its files are kept");
    for reply in [
        caller.get(&format!("/sandbox/{id}")).await?,
        caller.delete(&format!("/sandbox/{id}")).await?,
        caller.post(&format!("/wake/{id}"), &json!({})).await?,
        caller.post(&format!("/sandbox/{id}/exec"), &json!({"cmd": ["true"]})).await?,
    ] {
        error(&reply, 404)?;
    }
    let rows: Value = caller.get("/sandboxes").await?.expect(200)?;
    ensure!(rows == json!([]), "{rows}");
    let purge = format!("/sandbox/{id}/purge");
    let purged: Value = caller.post(&purge, &json!({})).await?.expect(200)?;
    let freed = purged["freed_bytes"].as_u64().context("a number")?;
    ensure!(purged["purged"] == true && (3_000_000..4_000_000).contains(&freed), "{purged}");
    ensure!(!hostd.workspace(&id).exists(), "its files are gone");
    error(&caller.post(&purge, &json!({})).await?, 404)?;
    // A running sandbox is woken at once.
    let id = id_of_new(&caller).await?;
    ensure!(exec(&caller, &id, fill).await?["exit_code"] == 0);
    let purged: Value = caller.post(&format!("/sandbox/{id}/purge"), &json!({})).await?.expect(200)?;
    ensure!(purged["freed_bytes"].as_u64().is_some_and(|freed| freed >= 3_000_000), "{purged}");
    ensure!(!hostd.workspace(&id).exists() && hostd.processes()?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_command_answers_with_its_output_and_exit_code() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.caller("acme", "ann", "run").await?;
    let id = id_of_new(&caller).await?;
    let table: [(&[&str], Value); 4] = [
        (&["echo", "a b"], json!({"stdout": "a b\n", "stderr": "", "exit_code": 0})),
        (
            &["sh", "-c", "echo out; echo err >&2; exit 3"],
            json!({"stdout": "out\n", "stderr": "err\n", "exit_code": 3}),
        ),
        (&["sh", "-c", "kill -9 $$"], json!({"stdout": "", "stderr": "", "exit_code": 137})),
        (&["printf", "\\377"], json!({"stdout": "\u{fffd}", "stderr": "", "exit_code": 0})),
    ];
    for (cmd, expected) in table {
        let answer = exec(&caller, &id, cmd).await?;
        ensure!(answer == expected, "{cmd:?}: {answer}");
    }
    let missing = exec(&caller, &id, &["no-such-program"]).await?;
    ensure!(missing["exit_code"] == 127 && missing["stderr"] != "", "{missing}");
    let path = format!("/sandbox/{id}/exec");
    for body in [json!({}), json!({"cmd": []}), json!({"cmd": [""]}), json!({"cmd": "ls"})] {
        let text = error(&caller.post(&path, &body).await?, 400)?;
        ensure!(text.contains("cmd"), "{body}: {text}");
    }
    let text = error(&caller.post(&path, &json!({"cmd": ["ls"], "cwd": "/"})).await?, 400)?;
    ensure!(text.contains("cwd"), "{text}");
    // A sleeping sandbox is woken.
    caller.post(&format!("/v1/sandboxes/{id}/stop"), &json!({})).await?.expect::<Value>(200)?;
    ensure!(exec(&caller, &id, &["echo", "awake"]).await?["stdout"] == "awake\n");
    // A missing sandbox is not reported as a failed command.
    let unknown = caller.post(&format!("/sandbox/{ID}/exec"), &json!({"cmd": ["true"]})).await?;
    ensure!(error(&unknown, 404)? == "not found");
    Ok(())
}

#[tokio::test]
async fn a_sandbox_that_cannot_run_is_503_with_a_word_and_a_time_to_wait() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.caller("acme", "ann", "run").await?;
    let id = id_of_new(&caller).await?;
    hostd.kill_init(&id)?;
    caller.becomes(&id, "error").await?;
    let refused = caller.post(&format!("/sandbox/{id}/exec"), &json!({"cmd": ["true"]})).await?;
    ensure!(error(&refused, 503)? == "start_failed", "{}", refused.text());
    ensure!(refused.headers["retry-after"] == "30", "{:?}", refused.headers);
    let body: Value = refused.json()?;
    let percent = body["mem_available_percent"].as_u64().context("a number")?;
    ensure!(percent <= 100 && body["message"].is_string(), "{body}");
    let shown: Value = caller.get(&format!("/sandbox/{id}")).await?.expect(200)?;
    ensure!(shown["row"]["status"] == "error" && shown["row"]["error_message"] != "", "{shown}");
    // Waking tries again.
    let woken: Value = caller.post(&format!("/wake/{id}"), &json!({})).await?.expect(200)?;
    ensure!(woken["id"] == json!(id) && woken["status"] == "running", "{woken}");
    ensure!(exec(&caller, &id, &["echo", "well"]).await?["stdout"] == "well\n");
    Ok(())
}

#[tokio::test]
async fn a_stream_comes_while_the_command_runs_and_ends_with_errors_and_exit_code() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.caller("acme", "ann", "run").await?;
    let id = id_of_new(&caller).await?;
    // The command continues only after its first line was read.
    let line = "echo first; echo bad >&2; while [ ! -e ~/go ]; do sleep 0.01; done; echo last; exit 7";
    let body = json!({"cmd": ["sh", "-c", line], "stream": true}).to_string();
    let request = Request::post(format!("/sandbox/{id}/exec")).body(Full::new(Bytes::from(body)))?;
    let mut answer = caller.open(request).await?;
    ensure!(answer.status() == 200 && answer.headers()["content-type"] == "text/plain; charset=utf-8");
    let frame = timeout(PATIENCE, answer.body_mut().frame()).await?.context("a first piece")??;
    let first = frame.into_data().ok().context("data")?;
    ensure!(first == "first\n", "{first:?}");
    exec(&caller, &id, &["sh", "-c", "touch ~/go"]).await?;
    let rest = timeout(PATIENCE, answer.into_body().collect()).await??.to_bytes();
    ensure!(rest == "last\n\n---stderr---\nbad\n\nexit_code: 7\n", "{rest:?}");
    Ok(())
}

#[tokio::test]
async fn a_stream_whose_sandbox_dies_is_cut_off_and_not_ended() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.caller("acme", "ann", "run").await?;
    let id = id_of_new(&caller).await?;
    let body = json!({"cmd": ["sh", "-c", "echo first; sleep 1000"], "stream": true}).to_string();
    let request = Request::post(format!("/sandbox/{id}/exec")).body(Full::new(Bytes::from(body)))?;
    let mut answer = caller.open(request).await?;
    timeout(PATIENCE, answer.body_mut().frame()).await?.context("a first piece")??;
    hostd.kill_init(&id)?;
    let rest = timeout(PATIENCE, answer.into_body().collect()).await?;
    ensure!(rest.is_err(), "{rest:?}");
    Ok(())
}

#[tokio::test]
async fn keepalive_is_clamped_to_a_day_and_wake_tells_how_long_it_took() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.caller("acme", "ann", "run").await?;
    let id = id_of_new(&caller).await?;
    let path = format!("/sandbox/{id}/keepalive");
    let soon = now_s()? + 600;
    let kept: Value = caller.post(&path, &json!({"until": soon})).await?.expect(200)?;
    ensure!(kept == json!({"id": id, "keepalive_until": soon}), "{kept}");
    let shown: Value = caller.get(&format!("/sandbox/{id}")).await?.expect(200)?;
    let until = shown["row"]["keepalive_until"].as_u64().context("seconds")?;
    ensure!(until.abs_diff(soon) <= 1, "{until} and {soon}");
    let kept: Value = caller.post(&path, &json!({"until": now_s()? + 900_000})).await?.expect(200)?;
    let until = kept["keepalive_until"].as_u64().context("seconds")?;
    ensure!(until.abs_diff(now_s()? + 86_400) < 60, "{kept}");
    for body in [json!({"until": now_s()? - 1}), json!({"until": 0}), json!({}), json!({"until": "soon"})] {
        let text = error(&caller.post(&path, &body).await?, 400)?;
        ensure!(text.contains("until"), "{body}: {text}");
    }
    caller.post(&format!("/v1/sandboxes/{id}/stop"), &json!({})).await?.expect::<Value>(200)?;
    error(&caller.post(&path, &json!({"until": soon})).await?, 409)?;
    for asleep in [true, false] {
        let woken: Value =
            caller.post(&format!("/wake/{}", id.to_uppercase()), &json!({})).await?.expect(200)?;
        let known = woken["id"] == json!(id) && woken["status"] == "running";
        ensure!(known && woken["wake_duration_ms"].is_u64(), "asleep: {asleep}: {woken}");
    }
    Ok(())
}

#[tokio::test]
async fn whoever_may_not_is_told_so_in_the_older_words() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (ann, bob) = (hostd.caller("a", "ann", "run").await?, hostd.caller("b", "bob", "run").await?);
    let id = id_of_new(&ann).await?;
    let anonymous: Value = ann.with_token(None).get("/sandboxes").await?.expect(401)?;
    ensure!(anonymous == json!({"error": "unauthorized"}), "{anonymous}");
    for reply in [
        bob.get(&format!("/sandbox/{id}")).await?,
        bob.delete(&format!("/sandbox/{id}")).await?,
        bob.post(&format!("/sandbox/{id}/purge"), &json!({})).await?,
        bob.get(&format!("/sandbox/{ID}")).await?,
        bob.get("/sandbox/nonsense").await?,
    ] {
        ensure!(reply.expect::<Value>(404)? == json!({"error": "not found"}), "{}", reply.text());
    }
    error(&hostd.caller("a", "ann", "read").await?.post("/sandbox", &json!({})).await?, 403)?;
    error(&bob.post("/sandbox", &json!({"id": id})).await?, 409)?;
    Ok(())
}
