//! When a service counts as ready, when it does not any more, and who waits for that.

use anyhow::{Context, Result, ensure};
use protocol::{Fact, ServiceState};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::services::{kind, word};
use tests::{Sandbox, Services, processes};

const RUN: &str = "exec sleep 1000";

/// Listens on `KIND:ADDRESS:PORT` for each argument and treats connections according to KIND: with a status,
/// or in a way that no server should. Once a file `well` exists every request gets 200.
const SERVER: &str = r#"
import os, socket, sys, threading, time
kept = []
def treat(kind, c):
    print(kind, flush=True)
    if os.path.exists("well"): kind = "200"
    try:
        if kind.isdigit(): c.sendall(b"HTTP/1.1 %s x\r\nContent-Length: 0\r\n\r\n" % kind.encode())
        if kind == "byte-by-byte":
            for b in b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":
                c.sendall(bytes([b])); time.sleep(0.001)
        if kind == "silent": return kept.append(c)
        if kind == "not-http": c.sendall(b"SSH-2.0-OpenSSH_9\r\n")
        if kind == "half": c.sendall(b"HTTP/1.1 2")
        if kind == "endless": c.sendall(b"\r\n" * 50000)
        c.recv(4096); c.close()
    except OSError: pass
def serve(kind, address, port):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((address, int(port))); s.listen()
    while True: threading.Thread(target=treat, args=(kind, s.accept()[0]), daemon=True).start()
for a in sys.argv[1:]:
    kind, rest = a.split(":", 1); address, port = rest.rsplit(":", 1)
    threading.Thread(target=serve, args=(kind, address, port)).start()
"#;

#[tokio::test]
async fn a_port_is_ready_on_either_loopback_address_and_not_before() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    sandbox.write_app("server.py", SERVER)?;
    let table = [("four", "127.0.0.1"), ("six", "::1"), ("any", "0.0.0.0"), ("any-six", "::")];
    let spec = |(at, (name, _)): (usize, &(&str, &str))| match at {
        0 => json!({"name": name, "command": RUN, "health": {"tcp": 8100}}),
        _ => json!({"name": name, "command": RUN, "port": 8100 + at}),
    };
    for view in services.put(table.iter().enumerate().map(spec).collect()).await? {
        ensure!(view.state == ServiceState::Starting, "{view:?}");
    }
    let busy = sandbox.client().status().await?.activity;
    ensure!(busy.busy && busy.reasons.len() == table.len(), "{busy:?}");
    let listen = |(at, (_, address)): (usize, &(&str, &str))| format!("200:{address}:{}", 8100 + at);
    let listen: Vec<_> = table.iter().enumerate().map(listen).collect();
    sandbox.client().start(json!({"shell": format!("exec python3 server.py {}", listen.join(" "))})).await?;
    for (name, _) in table {
        services.state(name, "ready").await?;
    }
    sandbox.stop().await
}

#[tokio::test]
async fn an_http_answer_below_500_is_ready_and_nothing_else_is() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    sandbox.write_app("server.py", SERVER)?;
    let well = ["200", "204", "302", "401", "404", "499", "byte-by-byte"];
    let sick = ["500", "503", "999", "silent", "not-http", "half", "hang-up", "endless"];
    let all: Vec<&str> = well.into_iter().chain(sick).collect();
    let port = |at: usize| 8200 + at;
    let listen = |(at, kind): (usize, &&str)| format!("{kind}:127.0.0.1:{}", port(at));
    let listen: Vec<_> = all.iter().enumerate().map(listen).collect();
    let server = json!({"name": "server", "command": format!("exec python3 server.py {}", listen.join(" "))});
    let checked = |(at, kind): (usize, &&str)| {
        let health = json!({"http": "/up?x=%20", "timeout_ms": 1000});
        json!({"name": format!("s-{kind}"), "command": RUN, "port": port(at), "health": health})
    };
    services.put(std::iter::once(server).chain(all.iter().enumerate().map(checked)).collect()).await?;
    for kind in well {
        services.state(&format!("s-{kind}"), "ready").await?;
    }
    // The second request says what the first one came to.
    let asked_twice =
        |log: &str| sick.iter().all(|kind| log.lines().filter(|line| line == kind).count() >= 2);
    services.prints("server", asked_twice).await?;
    for kind in sick {
        let view = services.view(&format!("s-{kind}")).await?;
        ensure!(view.state == ServiceState::Starting, "{view:?}");
    }
    sandbox.write_app("well", "")?;
    for kind in sick {
        services.state(&format!("s-{kind}"), "ready").await?;
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_line_of_either_stream_of_this_run_makes_ready_however_it_is_written() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let table = [
        ("whole", "echo 'ready in 30 ms'"),
        ("no-newline", "printf 'ready in 3'"),
        ("stderr", "echo 'ready in 30 ms' >&2"),
        ("split", "printf rea; sleep 0.01; printf 'dy i'; sleep 0.01; printf 'n 3'"),
        ("coloured", r"printf '\033[1mready in 7\033[0m\n'"),
        ("not-utf8", r"printf '\377\376 ready in 7\n'"),
        ("much-before", "head -c 300000 /dev/zero | tr '\\0' x; echo; echo ready in 1"),
    ];
    let health = json!({"log": "ready in \\d+"});
    let spec = |(name, line): &(&str, &str)| json!({"name": name, "command": format!("{line}; {RUN}"), "health": health});
    let mut set: Vec<Value> = table.iter().map(spec).collect();
    let apart = format!(
        "echo run; echo ready; echo in 3; until [ -e go ]; do sleep 0.02; done; echo ready in 9; {RUN}"
    );
    set.push(json!({"name": "apart", "command": apart, "health": health}));
    services.put(set.into()).await?;
    for (name, _) in table {
        services.state(name, "ready").await?;
    }
    services.prints("apart", |log| log.contains("in 3")).await?;
    ensure!(services.view("apart").await?.state == ServiceState::Starting, "a line is one line");
    sandbox.write_app("go", "")?;
    services.state("apart", "ready").await?;

    std::fs::remove_file(sandbox.app().join("go"))?;
    services.drive("apart", "restart").await?;
    services.prints("apart", |log| log.matches("run\n").count() == 2 && log.ends_with("in 3\n")).await?;
    ensure!(
        services.view("apart").await?.state == ServiceState::Starting,
        "what an earlier run printed is past"
    );
    sandbox.stop().await
}

#[tokio::test]
async fn a_command_that_exits_0_makes_ready_and_runs_where_and_as_the_service_does() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    std::fs::create_dir(sandbox.app().join("sub"))?;
    let sees = "[ \"$A\" = 1 ] && [ \"$PORT\" = 8123 ] && [ ${PWD##*/} = sub ] && [ $(id -u) = 1000 ]";
    let web = json!({"name": "web", "command": RUN, "env": {"A": "1"}, "port": 8123, "cwd": "sub",
        "health": {"command": sees}});
    // The check of this one says in the log of the service how often it was made.
    let tail = "touch tries; exec tail -f tries";
    let check = "echo try >> tries; [ -e good ]";
    let late = json!({"name": "late", "command": tail, "health": {"command": check}});
    services.put(json!([web, late])).await?;
    services.state("web", "ready").await?;
    services.prints("late", |log| log.matches("try").count() >= 3).await?;
    ensure!(services.view("late").await?.state == ServiceState::Starting);
    sandbox.write_app("good", "")?;
    services.state("late", "ready").await?;
    sandbox.stop().await
}

#[tokio::test]
async fn a_check_that_hangs_is_killed_at_its_timeout_and_with_its_service() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let tail = |file: &str| format!("touch {file}; exec tail -f {file}");
    let hang = |file: &str, sleep: u32| {
        format!("trap '' TERM; setsid sleep {sleep} & echo try >> {file}; sleep {sleep}")
    };
    let sleepers = |sleep: u32| -> Result<Vec<processes::ProcessEntry>> {
        let everybody = processes::in_namespace_of(sandbox.pid()?)?;
        Ok(everybody.into_iter().filter(|seen| seen.command == format!("sleep {sleep}")).collect())
    };
    let short = json!({"command": hang("a", 4545), "timeout_ms": 300});
    let long = json!({"command": hang("b", 4546), "timeout_ms": 60_000});
    services
        .put(json!([
            {"name": "short", "command": tail("a"), "health": short},
            {"name": "long", "command": tail("b"), "health": long},
        ]))
        .await?;
    services.prints("short", |log| log.matches("try").count() >= 2).await?;
    ensure!(services.view("short").await?.state == ServiceState::Starting);
    ensure!(sleepers(4545)?.len() <= 2, "only the last check may be there: {:?}", sleepers(4545)?);

    services.prints("long", |log| log.contains("try")).await?;
    let began = Instant::now();
    for name in ["short", "long"] {
        services.drive(name, "stop").await?;
        services.state(name, "stopped").await?;
    }
    for seen in sleepers(4545)?.iter().chain(&sleepers(4546)?) {
        processes::gone(seen).await?;
    }
    ensure!(began.elapsed() < Duration::from_secs(30), "a check outlived its service: {:?}", began.elapsed());
    sandbox.stop().await
}

#[tokio::test]
async fn a_hanging_check_does_not_hold_up_the_end_of_the_sandbox() -> Result<()> {
    let sandbox = Sandbox::start_with(&["RUNTIMED_SHUTDOWN_MS=60000"]).await?;
    let services = Services::of(&sandbox).await?;
    let health = json!({"command": "echo try >> tries; sleep 4547", "timeout_ms": 60_000});
    services
        .put(json!([{"name": "web", "command": "touch tries; exec tail -f tries", "health": health}]))
        .await?;
    services.prints("web", |log| log.contains("try")).await?;
    let began = Instant::now();
    sandbox.stop().await?;
    ensure!(began.elapsed() < Duration::from_secs(20), "the end took {:?}", began.elapsed());
    Ok(())
}

#[tokio::test]
async fn a_ready_service_whose_check_fails_is_unhealthy_until_it_passes_again() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    sandbox.write_app("server.py", SERVER)?;
    sandbox.write_app("well", "")?;
    let spec = |name: &str, health: Value| {
        let mut health = health;
        health["interval_ms"] = json!(500);
        json!({"name": name, "command": format!("echo {name} runs; {RUN}"), "port": 8300, "health": health})
    };
    services
        .put(json!([
            {"name": "server", "command": "exec python3 server.py 503:127.0.0.1:8300"},
            spec("http", json!({"http": "/"})),
            spec("tcp", json!({"tcp": 8300})),
            spec("command", json!({"command": "[ -e well ]"})),
        ]))
        .await?;
    let mut pids = Vec::new();
    for name in ["http", "tcp", "command"] {
        services.state(name, "ready").await?;
        pids.push(services.view_until(name, |view| view.pid.is_some()).await?.pid);
    }
    std::fs::remove_file(sandbox.app().join("well"))?;
    for (name, reason) in [("http", "answers 503"), ("command", "exited with 1")] {
        let told = services.state(name, "unhealthy").await?;
        ensure!(
            matches!(&told, ServiceState::Unhealthy { reason: told, .. } if told.contains(reason)),
            "{told:?}"
        );
        let view = services.view(name).await?;
        ensure!(view.last_lines == [format!("{name} runs")] && view.pid.is_some(), "{view:?}");
    }
    services.drive("server", "stop").await?;
    let told = services.state("tcp", "unhealthy").await?;
    ensure!(matches!(&told, ServiceState::Unhealthy { reason, .. } if reason.contains("8300")), "{told:?}");

    sandbox.write_app("well", "")?;
    services.drive("server", "start").await?;
    for (name, pid) in ["http", "tcp", "command"].into_iter().zip(pids) {
        services.state(name, "ready").await?;
        let view = services.view(name).await?;
        ensure!(view.pid == pid && view.restarts == 0, "it ran all the time: {view:?}");
    }
    sandbox.stop().await
}

/// A service that is ready once a file NAME-ready is there.
fn staged(name: &str, on: &[&str]) -> Value {
    let health = json!({"command": format!("[ -e {name}-ready ]")});
    json!({"name": name, "command": RUN, "depends_on": on, "health": health})
}

#[tokio::test]
async fn a_chain_starts_one_by_one_each_when_the_one_before_is_ready() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let states = async |services: &Services| -> Result<Vec<String>> {
        let views = services.views().await?;
        Ok(views.iter().map(|view| format!("{} {}", kind(&view.state), view.pid.is_some())).collect())
    };
    services.put(json!([staged("c", &["b"]), staged("b", &["a"]), staged("a", &[])])).await?;
    services.started("a").await?;
    ensure!(states(&services).await? == ["starting true", "waiting false", "waiting false"]);
    let waiting = services.view("c").await?.state;
    ensure!(matches!(&waiting, ServiceState::Waiting { on } if on[0].as_str() == "b"), "{waiting:?}");
    for (ready, next, expected) in [
        ("a", "b", ["ready true", "starting true", "waiting false"]),
        ("b", "c", ["ready true", "ready true", "starting true"]),
    ] {
        sandbox.write_app(&format!("{ready}-ready"), "")?;
        let was_ready = services.until(ready, |fact| word(fact) == "ready").await?.cursor;
        let started = services.until(next, |fact| word(fact) == "started").await?.cursor;
        ensure!(
            was_ready < started && states(&services).await? == expected,
            "{:?}",
            states(&services).await?
        );
    }
    sandbox.write_app("c-ready", "")?;
    services.state("c", "ready").await?;

    let (b, c) = (services.view("b").await?.pid, services.view("c").await?.pid);
    services.drive("a", "stop").await?;
    services.state("a", "stopped").await?;
    ensure!(
        states(&services).await? == ["stopped false", "ready true", "ready true"],
        "what runs goes on running"
    );
    services.drive("a", "start").await?;
    services.state("a", "ready").await?;
    ensure!((services.view("b").await?.pid, services.view("c").await?.pid) == (b, c));
    sandbox.stop().await
}

#[tokio::test]
async fn what_a_failed_service_was_needed_for_says_so_and_goes_on_once_it_runs() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let command = format!("[ -e good ] || exit 1; {RUN}");
    let db =
        json!({"name": "db", "command": command, "restart": "never", "health": {"command": "[ -e good ]"}});
    let migrate =
        json!({"name": "migrate", "command": "echo done", "restart": "never", "depends_on": ["db"]});
    let web = json!({"name": "web", "command": RUN, "depends_on": ["migrate", "db"]});
    services.put(json!([web, migrate, db])).await?;
    services.state("db", "stopped").await?;
    for (name, expected) in [("migrate", "db"), ("web", "migrate")] {
        let told = services.state(name, "failed_dependency").await?;
        ensure!(
            matches!(&told, ServiceState::FailedDependency { on } if on.as_str() == expected),
            "{told:?}"
        );
    }
    let view = services.drive("web", "start").await?;
    ensure!(kind(&view.state) == "failed_dependency", "asking does not help: {view:?}");
    sandbox.write_app("good", "")?;
    services.drive("db", "start").await?;
    services.state("migrate", "stopped").await?;
    services.state("web", "ready").await?;
    let order = services.told("migrate").await?;
    ensure!(order.is_empty(), "a migration runs once: {order:?}");

    let error = services.refused(json!([{"name": "web", "command": RUN, "depends_on": ["db"]}])).await?;
    ensure!(error.detail.field.as_deref() == Some("services.web.depends_on"), "{error:?}");
    ensure!(services.views().await?.len() == 3, "nothing was taken away");
    sandbox.stop().await
}

#[tokio::test]
async fn a_change_that_adds_a_dependency_waits_for_it() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    services.put(json!([{"name": "web", "command": RUN}, staged("db", &[])])).await?;
    let before = services.started("web").await?;
    services.put(json!([{"name": "web", "command": RUN, "depends_on": ["db"]}, staged("db", &[])])).await?;
    let next = services.until("web", |fact| matches!(word(fact).as_str(), "waiting" | "started")).await?;
    ensure!(word(&next.fact) == "waiting", "{next:?}");
    sandbox.write_app("db-ready", "")?;
    let db_ready = services.until("db", |fact| word(fact) == "ready").await?.cursor;
    let started = services.until("web", |fact| matches!(fact, Fact::ServiceStarted { .. })).await?;
    ensure!(started.cursor > db_ready && services.view("web").await?.pid.context("runs")? != before);
    sandbox.stop().await
}
