//! The life of a sandbox: created, stopped, paused, woken, made anew, destroyed.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::host::until;
use tests::{Caller, Hostd};

/// A verb of a sandbox that must settle.
async fn verb(caller: &Caller, id: &str, verb: &str) -> Result<Value> {
    caller.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect(200)
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("{field} of {value}"))
}

#[tokio::test]
async fn create_answers_with_everything_the_contract_names_and_the_sandbox_runs() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let spec = json!({
        "name": "mine", "ports": [3000], "env": {"TOKEN": "x"}, "metadata": {"a": "b"}, "project": "shop",
        "limits": {"memory_mb": 256, "cpus": 0.5, "pids": 100}, "idle_policy": "always_on",
        "visibility": "public", "ttl": "1h", "scope": {"kind": "conversation", "key": "c1"},
    });
    let reply = operator.post("/v1/sandboxes", &spec).await?;
    let view: Value = reply.expect(201)?;
    let id = text(&view, "id")?;
    ensure!(reply.headers["location"] == format!("/v1/sandboxes/{id}"), "{:?}", reply.headers);
    ensure!(id.len() == 26 && id == id.to_lowercase(), "{id}");
    let expected = [
        ("status", json!("running")),
        ("name", json!("mine")),
        ("driver", json!("oci")),
        ("image", json!("host")),
        ("ports", json!([3000])),
        ("limits", json!({"memory_mb": 256, "cpus": 0.5, "pids": 100})),
        ("network", json!("proxy")),
        ("idle_policy", json!("always_on")),
        ("visibility", json!("public")),
        ("env", json!(["TOKEN"])),
        ("metadata", json!({"a": "b"})),
        ("project", json!("shop")),
        ("scope", json!({"kind": "conversation", "key": "c1"})),
        ("attempt", json!(1)),
    ];
    for (field, value) in expected {
        ensure!(view[field] == value, "{field} is {} instead of {value}", view[field]);
    }
    let preview = text(&view["previews"], "3000")?;
    ensure!(preview.starts_with(&format!("http://s-{id}-3000.preview.localhost")), "{preview}");
    ensure!(text(&view, "created_at")? < text(&view, "expires_at")?, "{view}");
    ensure!(operator.sandbox(&id.to_uppercase()).await? == operator.sandbox(id).await?, "case matters");
    ensure!(operator.prints(id, "id -u; pwd").await? == "1000\n/home/sandbox/workspace/app\n");
    Ok(())
}

#[tokio::test]
async fn stop_frees_memory_keeps_files_and_start_finds_them() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    operator.prints(&id, "echo kept > file; echo too > ~/home; setsid sleep 1000 & :").await?;
    let stopped = verb(&operator, &id, "stop").await?;
    ensure!(stopped["status"] == "stopped", "{stopped}");
    ensure!(hostd.processes()? == Vec::<i32>::new(), "processes are left: {:?}", hostd.processes()?);
    ensure!(verb(&operator, &id, "stop").await?["status"] == "stopped", "stopping twice");
    let started = verb(&operator, &id, "start").await?;
    ensure!(started["status"] == "running" && started["attempt"] == 2, "{started}");
    ensure!(operator.prints(&id, "cat file ~/home").await? == "kept\ntoo\n");
    ensure!(verb(&operator, &id, "start").await?["attempt"] == 2, "it ran already");
    Ok(())
}

/// Starts something that counts in a file; the file, seen from outside.
async fn counter(hostd: &Hostd, caller: &Caller, id: &str) -> Result<std::path::PathBuf> {
    let line = "i=0; while :; do i=$((i+1)); echo $i > n.new; mv n.new n; sleep 0.01; done";
    let body = json!({"shell": line, "id": "counter", "wait": false});
    caller.post(&format!("/v1/sandboxes/{id}/execs"), &body).await?.expect::<Value>(202)?;
    let file = hostd.workspace(id).join("workspace/app/n");
    advanced(&file, 0).await?;
    Ok(file)
}

fn count(file: &std::path::Path) -> u64 {
    std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Waits until it counted beyond `from`.
async fn advanced(file: &std::path::Path, from: u64) -> Result<u64> {
    until("the counter goes on", async || Ok(Some(count(file)).filter(|n| *n > from))).await
}

#[tokio::test]
async fn pause_freezes_everything_and_resume_goes_on_with_memory_kept() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let (id, other) = (operator.create(&json!({})).await?, operator.create(&json!({})).await?);
    let (file, clock) = (counter(&hostd, &operator, &id).await?, counter(&hostd, &operator, &other).await?);
    let paused = verb(&operator, &id, "pause").await?;
    ensure!(paused["status"] == "paused" && paused["attempt"] == 1, "{paused}");
    let frozen = count(&file);
    // The other one goes on for long enough that this one would have counted.
    let now = count(&clock);
    advanced(&clock, now + 20).await?;
    ensure!(count(&file) == frozen, "{} after {frozen}", count(&file));
    ensure!(operator.sandbox(&id).await?["status"] == "paused");
    ensure!(verb(&operator, &id, "resume").await?["status"] == "running");
    // A counter that lost its memory would begin with 1 again.
    let later = advanced(&file, frozen).await?;
    ensure!(later < frozen + 1000, "{later}");
    ensure!(operator.sandbox(&id).await?["attempt"] == 1, "it was brought up again");
    Ok(())
}

#[tokio::test]
async fn an_exec_wakes_a_sandbox_that_sleeps_unless_it_may_not() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    for (asleep, status) in [("pause", "paused"), ("stop", "stopped")] {
        verb(&operator, &id, asleep).await?;
        for no in ["false", "0"] {
            let path = format!("/v1/sandboxes/{id}/execs?wake={no}");
            let reply = operator.post(&path, &json!({"shell": "echo"})).await?;
            ensure!(
                reply.status == 409 && reply.code()? == protocol::api::ApiErrorCode::NotRunning,
                "{}",
                reply.text()
            );
        }
        ensure!(operator.sandbox(&id).await?["status"] == status, "a refused exec woke it");
        ensure!(operator.prints(&id, "echo awake").await? == "awake\n");
        ensure!(operator.sandbox(&id).await?["status"] == "running");
    }
    Ok(())
}

#[tokio::test]
async fn many_execs_wake_a_stopped_sandbox_once() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    verb(&operator, &id, "stop").await?;
    let calls = (0..12).map(|n| {
        let (operator, id) = (operator.clone(), id.clone());
        async move { operator.prints(&id, &format!("echo {n}")).await }
    });
    let printed = futures_util::future::try_join_all(calls).await?;
    ensure!(printed == (0..12).map(|n| format!("{n}\n")).collect::<Vec<_>>(), "{printed:?}");
    ensure!(operator.sandbox(&id).await?["attempt"] == 2, "it was started more than once");
    Ok(())
}

#[tokio::test]
async fn recreate_keeps_or_empties_the_workspace_as_asked() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({"env": {"A": "b"}})).await?;
    operator.prints(&id, "echo x > file; echo y > ~/.hidden; mkdir -p ~/d/e").await?;
    let table = [
        ("recreate", true, 2),
        ("recreate?workspace=keep", true, 3),
        ("recreate?workspace=remove", false, 4),
    ];
    for (call, kept, attempt) in table {
        let view = verb(&operator, &id, call).await?;
        ensure!(view["status"] == "running" && view["attempt"] == attempt, "{call}: {view}");
        let found = operator.prints(&id, "cat file ~/.hidden 2>/dev/null; ls -d ~/d; echo $A $PWD").await;
        let expected = if kept { "x\ny\n/home/sandbox/d\n" } else { "" };
        let found = match kept {
            true => found?,
            false => operator.prints(&id, "ls -A ~/workspace/app; echo $A $PWD").await?,
        };
        ensure!(found == format!("{expected}b /home/sandbox/workspace/app\n"), "{call}: {found}");
    }
    ensure!(!hostd.workspace(&id).join(".hidden").exists());
    Ok(())
}

#[tokio::test]
async fn attempts_are_kept_with_their_relation_blueprint_and_duration() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({"limits": {"memory_mb": 300}, "env": {"A": "geheim"}})).await?;
    for call in ["stop", "start", "recreate"] {
        verb(&operator, &id, call).await?;
    }
    let path = format!("/v1/sandboxes/{id}/attempts");
    let page: Value = operator.get(&path).await?.expect(200)?;
    let attempts = page["items"].as_array().context("a list")?;
    let relations: Vec<&Value> = attempts.iter().map(|attempt| &attempt["relation"]).collect();
    ensure!(relations == [&json!("recreate"), &json!("start"), &json!("create")], "{page}");
    for (attempt, number) in attempts.iter().zip([3, 2, 1]) {
        ensure!(attempt["attempt"] == number && attempt["state"] == "succeeded", "{attempt}");
        ensure!(attempt["blueprint"]["limits"]["memory_mb"] == 300, "{attempt}");
        ensure!(attempt["blueprint"] == attempts[0]["blueprint"], "the blueprint is not frozen");
        ensure!(attempt["duration_ms"].as_u64().is_some_and(|ms| ms < 60_000), "{attempt}");
        ensure!(text(attempt, "started_at")? <= text(attempt, "ended_at")?, "{attempt}");
    }
    ensure!(!page.to_string().contains("geheim"), "{page}");
    let first: Value = operator.get(&format!("{path}?limit=2")).await?.expect(200)?;
    let rest: Value =
        operator.get(&format!("{path}?limit=2&after={}", text(&first, "next")?)).await?.expect(200)?;
    ensure!(rest["items"] == json!([attempts[2]]) && rest["next"].is_null(), "{rest}");
    Ok(())
}

#[tokio::test]
async fn delete_is_accepted_in_every_state_and_twice() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    for state in ["creating", "running", "paused", "stopped", "error", "stopping"] {
        let id = in_state(&hostd, &operator, state).await?;
        for time in ["first", "second"] {
            let view: Value = operator.delete(&format!("/v1/sandboxes/{id}")).await?.expect(200)?;
            ensure!(view["status"] == "destroyed" && view["phase"].is_null(), "{state} {time}: {view}");
        }
        ensure!(!hostd.workspace(&id).exists(), "{state}: files are left");
        ensure!(!hostd.data().join("oci").join(&id).exists(), "{state}: something is left");
        ensure!(operator.sandbox(&id).await?["status"] == "destroyed", "the record is kept");
        for call in ["start", "stop", "pause", "resume", "recreate"] {
            let reply = operator.post(&format!("/v1/sandboxes/{id}/{call}"), &json!({})).await?;
            ensure!(reply.status == 410, "{state} {call}: {} {}", reply.status, reply.text());
        }
    }
    ensure!(hostd.processes()? == Vec::<i32>::new());
    Ok(())
}

async fn in_state(hostd: &Hostd, operator: &Caller, state: &str) -> Result<String> {
    if state == "creating" {
        let view: Value = operator.post("/v1/sandboxes?wait=0", &json!({})).await?.expect(201)?;
        return Ok(text(&view, "id")?.to_owned());
    }
    let id = operator.create(&json!({})).await?;
    match state {
        "paused" => drop(verb(operator, &id, "pause").await?),
        "stopped" => drop(verb(operator, &id, "stop").await?),
        "stopping" => {
            let path = format!("/v1/sandboxes/{id}/stop?wait=0");
            operator.post(&path, &json!({})).await?.expect::<Value>(202)?;
        }
        "error" => {
            hostd.kill_init(&id)?;
            let view = operator.becomes(&id, "error").await?;
            ensure!(view["problem"]["code"] == "died", "{view}");
        }
        _ => {}
    }
    Ok(id)
}

#[tokio::test]
async fn delete_keeps_the_files_when_asked_to() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    operator.prints(&id, "echo kept > file").await?;
    operator.delete(&format!("/v1/sandboxes/{id}?workspace=keep")).await?.expect::<Value>(200)?;
    ensure!(std::fs::read_to_string(hostd.workspace(&id).join("workspace/app/file"))? == "kept\n");
    ensure!(hostd.processes()? == Vec::<i32>::new());
    Ok(())
}

#[tokio::test]
async fn a_sandbox_whose_time_is_over_is_destroyed() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    // Its time may be over before it is up.
    let made: Value = operator.post("/v1/sandboxes?wait=0", &json!({"ttl": "1s"})).await?.expect(201)?;
    let changed = operator.create(&json!({})).await?;
    let spared = operator.create(&json!({"ttl": "1h"})).await?;
    let set = async |id: &str, ttl: Value| {
        operator.patch(&format!("/v1/sandboxes/{id}/ttl"), &json!({ "ttl": ttl })).await?.expect::<Value>(200)
    };
    let view = set(&spared, json!("5s")).await?;
    ensure!(view["expires_at"].is_string(), "{view}");
    let view = set(&spared, Value::Null).await?;
    ensure!(view["expires_at"].is_null(), "{view}");
    // Later than the other one would have been.
    set(&changed, json!("5s")).await?;
    for id in [text(&made, "id")?, changed.as_str()] {
        operator.becomes(id, "destroyed").await?;
        ensure!(!hostd.workspace(id).exists());
    }
    ensure!(operator.sandbox(&spared).await?["status"] == "running");
    Ok(())
}

#[tokio::test]
async fn a_name_and_metadata_are_changed_and_the_list_filters() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({"project": "one", "metadata": {"a": "1"}})).await?;
    let other = operator.create(&json!({"project": "two"})).await?;
    let change = json!({"name": "new name", "metadata": {"b": "2"}});
    let view: Value = operator.patch(&format!("/v1/sandboxes/{id}"), &change).await?.expect(200)?;
    ensure!(view["name"] == "new name" && view["metadata"] == json!({"b": "2"}), "{view}");
    ensure!(operator.sandbox(&id).await? == view);
    verb(&operator, &other, "stop").await?;
    let gone = operator.create(&json!({})).await?;
    operator.delete(&format!("/v1/sandboxes/{gone}")).await?.expect::<Value>(200)?;
    let table: [(&str, &[&String]); 7] = [
        ("", &[&other, &id]),
        ("?project=one", &[&id]),
        ("?status=stopped", &[&other]),
        ("?status=destroyed", &[&gone]),
        ("?all=1", &[&gone, &other, &id]),
        ("?limit=1", &[&other]),
        (&format!("?limit=1&after={other}"), &[&id]),
    ];
    for (query, expected) in table {
        let page: Value = operator.get(&format!("/v1/sandboxes{query}")).await?.expect(200)?;
        let found: Vec<&str> =
            page["items"].as_array().into_iter().flatten().filter_map(|v| v["id"].as_str()).collect();
        ensure!(found == expected, "{query}: {found:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_environment_reaches_the_processes_and_nothing_else() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let secret = "Geheimnis-4711-x";
    let spec = json!({
        "env": {"KEY": secret},
        "services": [{"name": "web", "command": "sleep 1000", "env": {"OWN": format!("{secret}-web")}}],
    });
    let id = operator.create(&spec).await?;
    let exec = json!({"shell": "echo ${#KEY} ${#MINE}", "env": {"MINE": format!("{secret}-exec")}});
    let path = format!("/v1/sandboxes/{id}/execs");
    let ran: Value = operator.post(&path, &exec).await?.expect(200)?;
    ensure!(ran["stdout"] == format!("{} {}\n", secret.len(), secret.len() + 5), "{ran}");
    for call in ["stop", "start", "recreate"] {
        verb(&operator, &id, call).await?;
    }
    ensure!(operator.prints(&id, "echo ${#KEY}").await? == format!("{}\n", secret.len()));
    for part in ["", "/attempts", "/events", "/activity", "/execs", "/services", "/ports", "/stats"] {
        let reply = operator.get(&format!("/v1/sandboxes/{id}{part}")).await?;
        ensure!(reply.status == 200 && !reply.text().contains(secret), "{part}: {}", reply.text());
    }
    for path in ["/v1/audit", "/metrics", "/v1/host", "/v1/sandboxes"] {
        ensure!(!operator.get(path).await?.text().contains(secret), "{path}");
    }
    ensure!(!hostd.said().contains(secret), "in the log of hostd");
    let found = files_with(hostd.data(), secret.as_bytes())?;
    ensure!(found.iter().all(|name| name.starts_with("slipway.db")), "{found:?}");
    ensure!(
        columns_with(&hostd, secret).await? == ["sandboxes.env"],
        "{:?}",
        columns_with(&hostd, secret).await?
    );
    Ok(())
}

/// Names, below `dir`, of regular files that hold these bytes.
fn files_with(dir: &std::path::Path, bytes: &[u8]) -> Result<Vec<String>> {
    let (mut open, mut found) = (vec![dir.to_owned()], Vec::new());
    while let Some(next) = open.pop() {
        // Things come and go in a live directory.
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            let kind = entry.file_type()?;
            if kind.is_dir() && !entry.path().ends_with("images") {
                open.push(entry.path());
            }
            let holds = |text: Vec<u8>| text.windows(bytes.len()).any(|at| at == bytes);
            if kind.is_file() && std::fs::read(entry.path()).is_ok_and(holds) {
                found.push(entry.path().strip_prefix(dir)?.display().to_string());
            }
        }
    }
    Ok(found)
}

/// Every column of the database in which some row has this text.
async fn columns_with(hostd: &Hostd, text: &str) -> Result<Vec<String>> {
    let columns = "SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c \
        WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'";
    let mut found = Vec::new();
    for column in sql(hostd, columns).await?.lines() {
        let (table, name) = column.split_once('.').context("a column")?;
        let count =
            format!("SELECT count(*) FROM {table} WHERE instr(CAST({name} AS BLOB), CAST('{text}' AS BLOB))");
        if sql(hostd, &count).await?.trim() != "0" {
            found.push(column.to_owned());
        }
    }
    Ok(found)
}

async fn sql(hostd: &Hostd, query: &str) -> Result<String> {
    let mut command = tokio::process::Command::new("sqlite3");
    let output = command.arg("-readonly").arg(hostd.data().join("slipway.db")).arg(query).output().await?;
    ensure!(output.status.success(), "{query}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
