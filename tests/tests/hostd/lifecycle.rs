//! The life of a sandbox: attempts, deletion in every state, expiry, names and lists, its environment. What every
//! driver does with a sandbox is in `engines/conformance/life.rs`.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::{Caller, Hostd};

/// A verb of a sandbox that must settle.
async fn verb(caller: &Caller, id: &str, verb: &str) -> Result<Value> {
    caller.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect(200)
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("{field} of {value}"))
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
