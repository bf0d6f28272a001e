//! Services by the API: what runs, with which states and events, and what becomes of it when it is
//! changed, stopped, or ends by itself.

use anyhow::{Result, ensure};
use protocol::{Exit, Fact, ServiceSource, ServiceState, ServiceView};
use serde_json::{Value, json};
use tests::random::Random;
use tests::services::{kind, with, word};
use tests::{Sandbox, Services, processes, scaled};

/// Runs for ever.
const RUN: &str = "exec sleep 1000";

/// A set of one service that, told to stop, goes on until a file `go-NAME` is there. It is ready once it
/// would do so.
fn reluctant(name: &str) -> Value {
    let wait = format!("until [ -e go-{name} ]; do sleep 0.02; done; exit 0");
    let command = format!("trap '{wait}' TERM; echo up; while :; do sleep 0.02; done");
    json!([{"name": name, "command": command, "health": {"log": "up"}}])
}

/// How many processes of the sandbox have this command line.
fn count(sandbox: &Sandbox, command: &str) -> Result<usize> {
    let everybody = processes::in_namespace_of(sandbox.pid()?)?;
    Ok(everybody.iter().filter(|seen| seen.command == command).count())
}

/// Everybody but root, once the checks that were called off are gone. What root runs is runtimed's own.
async fn people(sandbox: &Sandbox) -> Result<Vec<processes::ProcessEntry>> {
    processes::people(sandbox.pid()?, |seen| seen.command.contains("pgrep")).await
}

fn words(facts: &[Fact]) -> Vec<String> {
    facts.iter().map(word).collect()
}

#[tokio::test]
async fn services_run_at_once_with_the_environment_port_and_directory_they_ask_for() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let (app, home) = (sandbox.app(), sandbox.home());
    std::fs::create_dir(app.join("sub"))?;
    let say = format!("echo \"$A|$PORT|$PWD|$(id -u)|$HOME|$SECRET\"; {RUN}");
    let spec = |name: &str, more: &Value| {
        with(json!({"name": name, "command": say, "health": {"log": "\\|"}}), more)
    };
    let (app, home) = (app.display().to_string(), home.display().to_string());
    let table = [
        ("plain", json!({}), format!("||{app}|1000|{home}|\n")),
        ("with-env", json!({"env": {"A": "x y\n'$B'"}}), format!("x y\n'$B'||{app}|1000|{home}|\n")),
        ("with-port", json!({"port": 8123}), format!("|8123|{app}|1000|{home}|\n")),
        ("own-port", json!({"port": 8123, "env": {"PORT": "7"}}), format!("|7|{app}|1000|{home}|\n")),
        ("below", json!({"cwd": "sub"}), format!("||{app}/sub|1000|{home}|\n")),
        ("elsewhere", json!({"cwd": "/usr"}), format!("||/usr|1000|{home}|\n")),
    ];
    let views = services.put(table.iter().map(|(name, more, _)| spec(name, more)).collect()).await?;
    ensure!(
        views.len() == table.len() && views.iter().all(|view| view.source == ServiceSource::Api),
        "{views:?}"
    );
    for (name, _, expected) in &table {
        services.state(name, "ready").await?;
        let log = services.prints(name, |log| log.len() >= expected.len()).await?;
        ensure!(log == *expected, "{name} printed {log:?}, expected {expected:?}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn start_stop_and_restart_lead_through_their_states() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    services.put(json!([{"name": "web", "command": RUN}, {"name": "other", "command": RUN}])).await?;
    let other = services.started("other").await?;
    let first = services.started("web").await?;
    ensure!(services.view("web").await?.pid == Some(first));
    services.told("web").await?;

    // The request, the state right after it, and all events until it has settled.
    let table = [
        ("start", "ready", "ready", vec![]),
        ("stop", "stopping", "stopped", vec!["stopping", "ended", "stopped"]),
        ("stop", "stopped", "stopped", vec![]),
        ("start", "ready", "ready", vec!["ready", "started"]),
        ("restart", "stopping", "ready", vec!["stopping", "ended", "ready", "started"]),
        ("stop", "stopping", "stopped", vec!["stopping", "ended", "stopped"]),
        ("restart", "ready", "ready", vec!["ready", "started"]),
    ];
    for (at, (verb, right_after, settled, expected)) in table.iter().enumerate() {
        let view = services.drive("web", verb).await?;
        ensure!(kind(&view.state) == *right_after, "{at}: right after {verb}: {view:?}");
        let mut story = Vec::new();
        while story.len() < expected.len() {
            story.push(word(&services.until("web", |_| true).await?.fact));
        }
        ensure!(story == *expected, "{at}: {verb} told {story:?}");
        let view = services.view("web").await?;
        ensure!(
            kind(&view.state) == *settled && view.pid.is_some() == (*settled == "ready"),
            "{at}: {view:?}"
        );
    }
    let view = services.view("web").await?;
    ensure!(view.restarts == 3 && view.last_exit == Some(Exit::Cancelled), "{view:?}");
    ensure!(services.view("other").await?.pid == Some(other), "the other one was left alone");
    sandbox.stop().await
}

#[tokio::test]
async fn what_is_not_there_is_404_and_what_cannot_be_a_name_is_400() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    for (method, path, status) in [
        ("GET", "/v1/services/ghost", 404),
        ("GET", "/v1/services/ghost/logs", 404),
        ("GET", "/v1/services/ghost/logs?follow=1", 404),
        ("POST", "/v1/services/ghost/start", 404),
        ("POST", "/v1/services/ghost/stop", 404),
        ("POST", "/v1/services/ghost/restart", 404),
        ("POST", "/v1/services/ghost/explode", 404),
        ("POST", "/v1/services/-x/start", 400),
        ("GET", "/v1/services/..%2f/logs", 400),
        ("GET", "/v1/services/ghost/start", 405),
        ("DELETE", "/v1/services", 405),
    ] {
        let answer = client.send(method.parse()?, path, bytes::Bytes::new()).await?;
        ensure!(answer.status == status, "{method} {path}: {} {}", answer.status, answer.text());
        let error = answer.error()?.error;
        ensure!(status != 404 || path.ends_with("explode") || error.message.contains("ghost"), "{error:?}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_set_that_cannot_be_is_refused_by_the_name_of_its_field_and_changes_nothing() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    services.put(json!([{"name": "web", "command": RUN}])).await?;
    let pid = services.started("web").await?;
    services.told("web").await?;
    let web = |more: Value| json!([with(json!({"name": "web", "command": "true"}), &more)]);
    let many: Value = (0..65).map(|i| json!({"name": format!("s{i}"), "command": RUN})).collect();
    let circle: Value = [("a", "b"), ("b", "c"), ("c", "a")]
        .map(|(name, on)| json!({"name": name, "command": RUN, "depends_on": [on]}))
        .into_iter()
        .collect();
    let table = [
        (json!([{"name": "x", "command": "a"}, {"name": "x", "command": "b"}]), "services.x", "the name x"),
        (many, "services", "at most 64 services"),
        (circle, "services.a.depends_on", "a -> b -> c -> a"),
        (web(json!({"depends_on": ["dbb"]})), "services.web.depends_on", "depends on dbb"),
        (web(json!({"depends_on": ["web"]})), "services.web.depends_on", "web -> web"),
        (web(json!({"command": " "})), "services.web.command", "empty"),
        (web(json!({"port": 0})), "services.web.port", "1 to 65535"),
        (web(json!({"port": 70000})), "services[0].port", "70000"),
        (web(json!({"health": {"http": "/"}})), "services.web.health.http", "port"),
        (web(json!({"health": {"log": "("}})), "services.web.health.log", "regular expression"),
        (web(json!({"health": {"tcp": 1, "interval_ms": 10}})), "services.web.health.interval_ms", "500ms"),
        (web(json!({"health": {"tcp": 1, "timeout_ms": 0}})), "services.web.health.timeout_ms", "1ms"),
        (web(json!({"restart": "sometimes"})), "services[0].restart", "on_failure"),
        (web(json!({"watch": ["../../etc"]})), "services.web.watch[0]", "relative"),
        (web(json!({"env": {"A=B": "1"}})), "services.web.env.A=B", "variable"),
        (json!([{"name": "../x", "command": "a"}]), "services[0].name", "a name is"),
        (json!([{"name": "x"}]), "services[0]", "command"),
        (json!("web"), "services", "sequence"),
    ];
    for (specs, field, text) in table {
        let error = services.refused(specs.clone()).await?;
        ensure!(error.detail.field.as_deref() == Some(field), "{specs}: {error:?}");
        ensure!(error.message.contains(text), "{specs}: {error:?}");
    }
    ensure!(services.view("web").await?.pid == Some(pid) && services.told("web").await?.is_empty());
    ensure!(services.views().await?.len() == 1);
    sandbox.stop().await
}

#[tokio::test]
async fn a_change_of_the_set_touches_only_what_changed() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let set = |names: &[&str], a: &str| -> Value {
        let spec = |name: &&str| json!({"name": name, "command": RUN, "env": {"A": if *name == "b" { a } else { "" }}});
        names.iter().map(spec).collect()
    };
    services.put(set(&["a", "b", "c"], "1")).await?;
    let (a, b, c) =
        (services.started("a").await?, services.started("b").await?, services.started("c").await?);
    for name in ["a", "b", "c"] {
        services.told(name).await?;
    }

    let same = services.put(set(&["c", "b", "a"], "1")).await?;
    ensure!(same.iter().map(|view| view.pid).collect::<Vec<_>>() == [Some(a), Some(b), Some(c)], "{same:?}");

    services.put(set(&["a", "b", "d"], "2")).await?;
    services.removed("c").await?;
    let now = services.started("b").await?;
    services.started("d").await?;
    ensure!(now != b && services.view("b").await?.restarts == 1);
    ensure!(
        services.view("a").await?.pid == Some(a) && services.told("a").await?.is_empty(),
        "a is as it was"
    );
    let names: Vec<_> = services.views().await?.into_iter().map(|view| view.name.to_string()).collect();
    ensure!(names == ["a", "b", "d"], "{names:?}");
    ensure!(sandbox.client().get("/v1/services/c").await?.status == 404);
    ensure!(sandbox.client().get("/v1/services/c/logs").await?.status == 404);

    services.put(json!([])).await?;
    for name in ["a", "b", "d"] {
        services.removed(name).await?;
    }
    ensure!(services.views().await?.is_empty() && count(&sandbox, "sleep 1000")? == 0);
    sandbox.stop().await
}

#[tokio::test]
async fn the_last_word_counts_also_while_a_change_is_under_way() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let table = [("restart", "ready"), ("start", "ready"), ("stop", "stopped")];
    for (name, expected) in table {
        let new = json!([{"name": name, "command": RUN}]);
        services.put(reluctant(name)).await?;
        services.state(name, "ready").await?;
        services.put(new.clone()).await?;
        services.state(name, "stopping").await?;
        services.put(new).await?;
        services.drive(name, name).await?;
        sandbox.write_app(&format!("go-{name}"), "")?;
        let settled = |view: &ServiceView| view.command == RUN && kind(&view.state) == expected;
        services.view_until(name, settled).await?;
        ensure!(expected == "ready" || count(&sandbox, "sleep 1000")? == 0, "{name}");
        services.put(json!([])).await?;
        services.removed(name).await?;
    }
    sandbox.stop().await
}

#[tokio::test]
async fn what_is_being_removed_cannot_be_started_and_can_be_asked_for_again() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    services.put(reluctant("web")).await?;
    services.state("web", "ready").await?;
    services.put(json!([])).await?;
    for verb in ["start", "restart"] {
        let answer = sandbox.client().post(&format!("/v1/services/web/{verb}"), &Value::Null).await?;
        ensure!(answer.status == 409 && answer.text().contains("removed"), "{verb}: {}", answer.text());
    }
    services.drive("web", "stop").await?;
    sandbox.write_app("go-web", "")?;
    services.removed("web").await?;
    std::fs::remove_file(sandbox.app().join("go-web"))?;

    services.put(reluctant("web")).await?;
    let before = services.started("web").await?;
    services.state("web", "ready").await?;
    services.put(json!([])).await?;
    services.put(reluctant("web")).await?;
    sandbox.write_app("go-web", "")?;
    ensure!(services.started("web").await? != before);
    services.state("web", "ready").await?;
    ensure!(!words(&services.told("web").await?).contains(&"removed".to_owned()));
    sandbox.stop().await
}

#[tokio::test]
async fn what_ends_by_itself_is_tried_again_as_its_policy_says() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let exited = |code| Exit::Exited { code };
    let nowhere = format!("enter {:?}: No such file or directory", sandbox.app().join("nowhere"));
    let table = [
        ("always", "echo well", exited(0), "backoff", "well"),
        ("always", "echo out; echo err >&2; exit 3", exited(3), "backoff", "err"),
        ("always", "no-such-program", exited(127), "backoff", "not found"),
        ("always", "kill -SEGV $$", Exit::Signalled { signal: 11 }, "backoff", ""),
        ("always", "cd nowhere", Exit::SpawnFailed { message: nowhere }, "backoff", ""),
        ("on_failure", "echo done", exited(0), "stopped", ""),
        ("on_failure", "echo broken; exit 1", exited(1), "backoff", "broken"),
        ("on_failure", "kill -KILL $$", Exit::Signalled { signal: 9 }, "backoff", ""),
        ("never", "echo done", exited(0), "stopped", ""),
        ("never", "echo broken; exit 1", exited(1), "stopped", "broken"),
    ];
    let spec = |(at, (policy, command, ..)): (usize, &(&str, &str, Exit, &str, &str))| {
        let cwd = if *command == "cd nowhere" { "nowhere" } else { "." };
        json!({"name": format!("s{at}"), "command": command, "restart": policy, "cwd": cwd})
    };
    services.put(table.iter().enumerate().map(spec).collect()).await?;
    for (at, (policy, command, exit, state, last_line)) in table.iter().enumerate() {
        let name = format!("s{at}");
        let ended = services.until(&name, |fact| matches!(fact, Fact::ServiceEnded { .. })).await?.fact;
        ensure!(
            matches!(&ended, Fact::ServiceEnded { exit: told, .. } if told == exit),
            "{command}: {ended:?}"
        );
        let told = services.state(&name, state).await?;
        ensure!(!matches!(told, ServiceState::Backoff { failures, .. } if failures != 1), "{told:?}");
        // The service may have been restarted meanwhile.
        let view = services.view_until(&name, |view| kind(&view.state) == *state).await?;
        ensure!(view.last_exit.as_ref() == Some(exit), "{policy} {command}: {view:?}");
        let shown = view.last_lines.last().map(String::as_str).unwrap_or_default();
        ensure!(shown.contains(last_line) && shown.is_empty() == last_line.is_empty(), "{command}: {view:?}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn the_pause_doubles_and_a_file_change_or_a_restart_call_tries_at_once_for_ever() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    services.put(json!([{"name": "web", "command": "cat trigger; exit 7"}])).await?;
    let pauses_ms = [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
    let tries = scaled(6, 7);
    for (at, expected_ms) in pauses_ms.into_iter().take(tries).enumerate() {
        let told = services.until("web", |fact| word(fact) == "backoff").await?;
        let Fact::ServiceState { state: ServiceState::Backoff { next_try_ms, failures }, .. } = told.fact
        else {
            anyhow::bail!("{told:?}")
        };
        let pause_ms = next_try_ms.saturating_sub(told.time_ms);
        ensure!(failures as usize == at + 1, "failure {failures} at {at}");
        ensure!((expected_ms - 500..=expected_ms).contains(&pause_ms), "pause {at} is {pause_ms} ms");
        let view = services.view("web").await?;
        // On a slow machine it may run or have failed again.
        let counted = match view.state {
            ServiceState::Backoff { failures, .. } => view.restarts + 1 == u64::from(failures),
            _ => view.restarts > at as u64,
        };
        ensure!(view.last_exit == Some(Exit::Exited { code: 7 }) && counted, "{view:?}");
        if at + 1 < tries {
            sandbox.write_app("trigger", &format!("try {at}"))?;
        }
    }
    let view = services.view_until("web", |view| kind(&view.state) == "backoff").await?;
    ensure!(view.last_lines.last().is_some_and(|line| line.contains("try")), "{view:?}");
    services.told("web").await?;
    services.drive("web", "restart").await?;
    services.started("web").await?;
    let state = services.state("web", "backoff").await?;
    ensure!(matches!(state, ServiceState::Backoff { failures: 1, .. }), "a restart begins anew: {state:?}");
    services.drive("web", "stop").await?;
    services.state("web", "stopped").await?;
    sandbox.stop().await
}

#[tokio::test]
async fn what_a_service_writes_itself_before_it_dies_does_not_try_it_again() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let writes = |name: &str| format!("mkdir -p logs/$RANDOM; echo $$ > {name}.pid; exit 1");
    services.put(json!([{"name": "web", "command": writes("web")}])).await?;
    for pause_ms in [1_000, 2_000] {
        let failed = services.until("web", |fact| word(fact) == "backoff").await?;
        let tried = services.until("web", |fact| word(fact) == "ready").await?;
        let waited_ms = tried.time_ms - failed.time_ms;
        ensure!(waited_ms >= pause_ms - 100, "it was tried again after {waited_ms} ms");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn nothing_a_service_started_outlives_it() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let leaves = "setsid sleep 4343 & (setsid nohup sleep 4343 >/dev/null 2>&1 &) ; echo up; exit 0";
    services.put(json!([{"name": "leaver", "command": leaves, "restart": "never"}])).await?;
    services.state("leaver", "stopped").await?;
    ensure!(count(&sandbox, "sleep 4343")? == 0, "they died with their leader");

    let deaf = "trap '' TERM; setsid bash -c \"trap '' TERM; sleep 4344; :\" & sleep 4344; sleep 4344";
    services
        .put(json!([{"name": "deaf", "command": deaf, "health": {"command": "pgrep -fx 'sleep 4344'"}}]))
        .await?;
    services.state("deaf", "ready").await?;
    services.drive("deaf", "stop").await?;
    let asked = services.until("deaf", |fact| word(fact) == "stopping").await?;
    let ended = services.until("deaf", |fact| word(fact) == "ended").await?;
    let took_ms = ended.time_ms - asked.time_ms;
    ensure!(took_ms >= 4_900, "it had {took_ms} ms of its 5 s");
    ensure!(count(&sandbox, "sleep 4344")? == 0, "they were killed");
    services.state("deaf", "stopped").await?;
    sandbox.stop().await
}

#[tokio::test]
async fn as_many_as_allowed_start_and_stop_at_once() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let name = |i: usize| format!("s{i}");
    let set: Value = (0..64).map(|i| json!({"name": name(i), "command": RUN})).collect();
    for _ in 0..scaled(1, 20) {
        services.put(set.clone()).await?;
        for i in 0..64 {
            services.started(&name(i)).await?;
        }
        processes::appear(sandbox.pid()?, "sleep 1000", 64).await?;
        services.put(json!([])).await?;
        for i in 0..64 {
            services.removed(&name(i)).await?;
        }
        ensure!(count(&sandbox, "sleep 1000")? == 0);
    }
    processes::settles(sandbox.client(), 1).await?;
    sandbox.stop().await
}

#[tokio::test]
async fn any_order_of_calls_ends_in_what_was_asked_last() -> Result<()> {
    let mut random = Random::seeded();
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    // A service is ready once its leader and three children run, each found once.
    let spec = |i: usize, before: &str, more: Value| {
        let command = format!("{before} sleep 50{i} & setsid sleep 50{i} & sleep 50{i}; :");
        let check = format!("[ $(pgrep -fxc 'sleep 50{i}') = 3 ]");
        let health = json!({"command": check, "interval_ms": 3_600_000});
        with(json!({"name": format!("s{i}"), "command": command, "health": health}), &more)
    };
    let slow = "trap 'sleep 0.05; exit' TERM;";
    services
        .put(json!([
            spec(0, "", json!({})),
            spec(1, slow, json!({})),
            spec(2, "", json!({"restart": "never"})),
            spec(3, slow, json!({"restart": "on_failure"})),
            spec(4, "", json!({"depends_on": ["s0"]})),
        ]))
        .await?;
    let mut wanted = [true; 5];
    for _ in 0..scaled(60, 2_000) {
        let i = random.below(5) as usize;
        let verb = ["start", "stop", "restart"][random.below(3) as usize];
        services.drive(&format!("s{i}"), verb).await?;
        wanted[i] = verb != "stop";
    }
    let mut running = 0;
    for (i, wanted) in wanted.into_iter().enumerate() {
        let name = format!("s{i}");
        let alone = i == 4 && kind(&services.view("s0").await?.state) == "stopped";
        let settled = |view: &ServiceView| match kind(&view.state) {
            "ready" => wanted,
            "failed_dependency" => wanted && alone,
            state => state == "stopped" && !wanted,
        };
        let view = services.view_until(&name, settled).await?;
        let runs = usize::from(kind(&view.state) == "ready");
        running += runs;
        let sleepers = count(&sandbox, &format!("sleep 50{i}"))?;
        ensure!(sleepers == 3 * runs, "{sleepers} sleepers, {view:?}");
    }
    // Of each service its shell and three sleepers.
    let everybody = people(&sandbox).await?;
    ensure!(everybody.len() == 4 * running, "{running} services run, and {everybody:#?}");
    sandbox.stop().await
}

#[tokio::test]
async fn any_order_of_sets_and_calls_ends_in_the_last_set() -> Result<()> {
    let mut random = Random::seeded();
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let line = |i: u64, version: u64| format!("sleep 6{version}{i}");
    let spec = |i: u64, version: u64| {
        let health =
            json!({"command": format!("pgrep -fx '{}'", line(i, version)), "interval_ms": 3_600_000});
        let command = format!("trap 'sleep 0.0{i}; exit' TERM; {} & wait", line(i, version));
        json!({"name": format!("s{i}"), "command": command, "health": health})
    };
    for _ in 0..scaled(40, 1_000) {
        let set: Value = (0..5).filter(|_| random.below(3) > 0).map(|i| spec(i, i % 2)).collect();
        let set = if random.below(2) == 0 { set } else { (0..5).map(|i| spec(i, random.below(3))).collect() };
        services.put(set).await?;
        let (i, verb) = (random.below(5), ["start", "stop", "restart"][random.below(3) as usize]);
        let answer = sandbox.client().post(&format!("/v1/services/s{i}/{verb}"), &Value::Null).await?;
        ensure!([200, 404, 409].contains(&answer.status), "{}", answer.text());
    }
    let last: Vec<u64> = (0..5).filter(|_| random.below(2) == 0).collect();
    services.put(last.iter().map(|i| spec(*i, 9)).collect()).await?;
    for i in 0..5 {
        let name = format!("s{i}");
        if last.contains(&i) {
            let settled =
                |view: &ServiceView| view.command.contains(&line(i, 9)) && kind(&view.state) == "ready";
            services.view_until(&name, settled).await?;
        }
        while !last.contains(&i) && services.views().await?.iter().any(|view| view.name.as_str() == name) {
            services.until(&name, |_| true).await?;
        }
    }
    let everybody = people(&sandbox).await?;
    let sleepers = last.iter().map(|i| count(&sandbox, &line(*i, 9))).collect::<Result<Vec<_>>>()?;
    ensure!(
        sleepers.iter().all(|n| *n == 1) && everybody.len() == 2 * last.len(),
        "{last:?}: {everybody:#?}"
    );
    sandbox.stop().await
}
