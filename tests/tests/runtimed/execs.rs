//! Execs: what runs, with which input and surroundings, once, and every way it can end.

use anyhow::{Context, Result, ensure};
use protocol::{ErrorCode, ExecState, ExecView, Exit, Fact, Hint, Process};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use tests::events::EventStream;
use tests::expect_error::refused;
use tests::shell::{cancel, cancel_now, prints, shell, started, stdout};
use tests::{Client, Sandbox, scaled, type_in};
use tokio::task::JoinSet;

const EXITED_0: Option<Exit> = Some(Exit::Exited { code: 0 });

fn spawn_failure(view: &ExecView) -> Result<&str> {
    match &view.exit {
        Some(Exit::SpawnFailed { message }) => Ok(message),
        other => anyhow::bail!("{:?} ended with {other:?}, hints {:?}", view.argv.first(), view.hints),
    }
}

// ---- what runs ----

#[tokio::test]
async fn argv_is_taken_as_it_is_and_a_shell_line_is_read_by_a_shell() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    for (request, printed) in [
        (json!({"argv": ["printf", "%s|", "a b", "", "$HOME", "*"]}), "a b||$HOME|*|"),
        (json!({"argv": ["/usr/bin/printf", "é\n"]}), "é\n"),
        (json!({"shell": "printf '%s|' a b \"$((1+2))\" | tr a-z A-Z"}), "A|B|3|"),
        (json!({"shell": "[[ -n $BASH_VERSION ]] && echo bash"}), "bash\n"),
    ] {
        let view = sandbox.client().exec(request.clone()).await?;
        ensure!(view.exit == EXITED_0 && stdout(&view)? == printed, "{request}: {view:?}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn an_exec_runs_in_the_directory_it_asks_for_or_says_which_one_it_could_not_enter() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let app = sandbox.app();
    shell(client, "mkdir sub; touch file").await?;
    for (cwd, expected) in
        [(None, app.clone()), (Some("sub"), app.join("sub")), (Some("/tmp"), "/tmp".into())]
    {
        let view = client.exec(json!({"argv": ["pwd"], "cwd": cwd})).await?;
        ensure!(stdout(&view)?.trim_end() == expected.to_str().context("a path")?, "{cwd:?}: {view:?}");
    }
    let long = "d".repeat(4000);
    for (cwd, why) in [
        ("missing", "No such file"),
        ("/no/such/place", "No such file"),
        ("file", "Not a directory"),
        ("/root", "Permission denied"),
        (&long, "name too long"),
    ] {
        let view = client.exec(json!({"argv": ["pwd"], "cwd": cwd})).await?;
        let message = spawn_failure(&view)?;
        // A name that is too long to be told is told by its beginning.
        ensure!(
            message.contains(&cwd[..cwd.len().min(100)]) && message.contains(why),
            "{cwd:.50}: {message}"
        );
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_command_that_cannot_run_says_why() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    sandbox.write_app("plain", "echo never")?;
    sandbox.write_app("garbage", "\0\x01\x02")?;
    sandbox.write_app("orphan", "#!/no/such/interpreter\n")?;
    for name in ["garbage", "orphan"] {
        std::fs::set_permissions(sandbox.app().join(name), std::fs::Permissions::from_mode(0o755))?;
    }
    let long = "x".repeat(100_000);
    for (program, why) in [
        ("no-such-program", "No such file"),
        ("/no/such/program", "No such file"),
        ("./plain", "Permission denied"),
        ("./garbage", "Exec format error"),
        ("./orphan", "No such file"),
        ("/tmp", "Permission denied"),
        ("/etc/passwd/x", "No such file"),
        (&long, "name too long"),
        (&"\u{1}\u{7f}é".repeat(1500), "name too long"),
    ] {
        let view = sandbox.client().exec(json!({"argv": [program]})).await?;
        let message = spawn_failure(&view).with_context(|| format!("{program:.50}"))?;
        ensure!(message.contains(why) && message.len() < 5000, "{program:.50}: {message}");
        ensure!(view.output_end == Some(0) && view.hints.is_empty(), "{view:?}");
    }
    let found =
        sandbox.client().exec(json!({"argv": ["sh", "-c", "exit 3"], "env": {"PATH": "/no:/bin"}})).await?;
    ensure!(found.exit == Some(Exit::Exited { code: 3 }), "{found:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn the_environment_is_clean_but_for_what_was_asked() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let home = sandbox.home().display().to_string();
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slipway/agents/bin";
    let always = [
        ("PATH", path),
        ("HOME", &home),
        ("USER", "sandbox"),
        ("LANG", "C.UTF-8"),
        ("SLIPWAY_STATUS_URL", "http://127.0.0.1:900/"),
    ];
    let tty = json!({"cols": 80, "rows": 24});
    for (tty, env, more) in [
        (Value::Null, json!({}), vec![]),
        (Value::Null, json!({"A": "1 2", "LANG": "de"}), vec![("A", "1 2"), ("LANG", "de")]),
        (tty.clone(), json!({}), vec![("TERM", "xterm-256color")]),
        (tty, json!({"TERM": "dumb", "RUNTIMED_X": ""}), vec![("TERM", "dumb"), ("RUNTIMED_X", "")]),
    ] {
        let view = sandbox.client().exec(json!({"argv": ["env"], "env": env, "tty": tty})).await?;
        let printed = stdout(&view)?.replace('\r', "");
        let got: BTreeMap<&str, &str> = printed.lines().filter_map(|line| line.split_once('=')).collect();
        let expected: BTreeMap<&str, &str> = always.into_iter().chain(more).collect();
        ensure!(got == expected, "{got:?}");
    }
    sandbox.stop().await
}

// ---- one id, one run ----

#[tokio::test]
async fn the_same_id_runs_once_however_often_it_is_asked_for() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let request = json!({"id": "once", "shell": "echo run >>runs; echo out; exit 3"});
    let mut askers = JoinSet::new();
    for _ in 0..scaled(50, 400) {
        let (client, request) = (sandbox.client().clone(), request.clone());
        askers.spawn(async move { client.exec(request).await });
    }
    let mut views = Vec::new();
    while let Some(view) = askers.join_next().await {
        views.push(view??);
    }
    views.push(sandbox.client().exec(request.clone()).await?);
    for view in &views {
        ensure!(view.exit == Some(Exit::Exited { code: 3 }) && stdout(view)? == "out\n", "{view:?}");
        ensure!(view.pid.is_some(), "it tells the pid that the command had: {view:?}");
        ensure!((view.started_ms, view.pid) == (views[0].started_ms, views[0].pid), "{view:?}");
    }
    ensure!(std::fs::read_to_string(sandbox.app().join("runs"))? == "run\n");
    sandbox.stop().await
}

#[tokio::test]
async fn the_same_id_with_another_request_is_a_conflict() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let first = json!({"id": "a", "argv": ["true"], "env": {"A": "1"}});
    client.exec(first.clone()).await?;
    for (field, value) in [
        ("argv", json!(["true", ""])),
        ("env", json!({"A": "2"})),
        ("env", json!({})),
        ("cwd", json!("/tmp")),
        ("stdin", json!("")),
        ("stdin_open", json!(true)),
        ("timeout_ms", json!(5000)),
        ("tty", json!({"cols": 80, "rows": 24})),
    ] {
        let mut other = first.clone();
        other[field] = value;
        refused(&client.post("/v1/execs", &other).await?, ErrorCode::Conflict, None).context(field)?;
    }
    ensure!(client.exec(first).await?.exit == EXITED_0);
    sandbox.stop().await
}

#[tokio::test]
async fn an_id_with_strange_bytes_is_refused_by_name() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let long = "x".repeat(65);
    for id in ["", ".", "..", "../x", "a/b", "a b", "a\nb", "a\u{0}", "é", "-rf", "a%2fb", "\u{202e}", &long]
    {
        let answer = client.post("/v1/execs", &json!({"id": id, "argv": ["true"]})).await?;
        refused(&answer, ErrorCode::InvalidRequest, Some("id")).with_context(|| format!("{id:?}"))?;
    }
    for id in ["%2e%2e", "a%00", "a%20b", "%ff", "~", "a;b", &long] {
        let answer = client.get(&format!("/v1/execs/{id}")).await?;
        refused(&answer, ErrorCode::InvalidRequest, Some("id")).with_context(|| format!("{id:?}"))?;
    }
    ensure!(client.get("/v1/execs").await?.json::<Vec<ExecView>>()?.is_empty());
    sandbox.stop().await
}

#[tokio::test]
async fn after_a_crash_an_id_is_known_and_what_ran_is_lost() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let ran =
        json!({"id": "ran", "shell": "echo run >>runs; echo out; sleep 600", "env": {"SECRET": "hunter2"}});
    let ended = json!({"id": "ended", "shell": "echo bye; exit 4"});
    started(sandbox.client(), "ran", ran.clone(), "out").await?;
    sandbox.client().exec(ended.clone()).await?;
    let sandbox = sandbox.crash_and_boot().await?;
    let client = sandbox.client();
    for (request, exit, printed) in [(&ran, Exit::Lost, "out\n"), (&ended, Exit::Exited { code: 4 }, "bye\n")]
    {
        let view = client.exec(request.clone()).await?;
        ensure!(view.exit == Some(exit) && stdout(&view)? == printed, "{view:?}");
    }
    ensure!(std::fs::read_to_string(sandbox.app().join("runs"))? == "run\n");
    let other = client.post("/v1/execs", &json!({"id": "ran", "shell": "true"})).await?;
    refused(&other, ErrorCode::Conflict, None)?;
    let lost = |fact: &Fact| matches!(fact, Fact::ExecEnded { exec, exit: Exit::Lost, .. } if exec.as_str() == "ran");
    EventStream::open(client).await?.until(lost).await?;
    // Environment stays out of everything that is written down.
    let found =
        std::process::Command::new("grep").args(["-rl", "hunter2"]).arg(sandbox.control_dir()).output()?;
    ensure!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
    sandbox.stop().await
}

// ---- every way to end ----

#[tokio::test]
async fn a_wait_that_is_over_answers_202_and_the_exec_goes_on() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let request = json!({"id": "w", "shell": "read line; exit 9", "stdin_open": true});
    for wait_ms in [0, 1, 50] {
        let answer = client.post(&format!("/v1/execs?wait_ms={wait_ms}"), &request).await?;
        let view: ExecView = answer.json()?;
        ensure!(answer.status == 202 && view.state == ExecState::Running, "{view:?}");
        ensure!(view.exit.is_none() && view.stdout.is_none() && view.pid.is_some(), "{view:?}");
    }
    type_in(client, "w", "\n").await?;
    ensure!(client.ended("w").await?.exit == Some(Exit::Exited { code: 9 }));
    sandbox.stop().await
}

#[tokio::test]
async fn an_exec_that_takes_too_long_is_ended_and_says_so() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut running = JoinSet::new();
    for line in [
        "echo start; sleep 600",
        // Its own way of ending does not hide that its time was over.
        "trap 'exit 0' TERM; echo start; sleep 600 & wait",
        "trap '' TERM; echo start; sleep 600 & setsid sleep 600 & while :; do wait; done",
    ] {
        let client = sandbox.client().clone();
        // Time enough for a shell to begin on a busy machine.
        running.spawn(async move { (line, client.exec(json!({"shell": line, "timeout_ms": 3_000})).await) });
    }
    while let Some(ended) = running.join_next().await {
        let (line, view) = ended?;
        let view = view?;
        ensure!(view.exit == Some(Exit::TimedOut) && view.background.is_empty(), "{line}: {view:?}");
        ensure!(stdout(&view)? == "start\n" && view.duration_ms >= Some(3_000), "{line}: {view:?}");
    }
    let quick = sandbox.client().exec(json!({"shell": "exit 2", "timeout_ms": 60_000})).await?;
    ensure!(quick.exit == Some(Exit::Exited { code: 2 }), "{quick:?}");
    ensure!(shell(sandbox.client(), "ps -e -o comm= | grep -c sleep || true").await? == "0\n");
    sandbox.stop().await
}

#[tokio::test]
async fn a_cancelled_exec_ends_with_all_that_is_below_it() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    for (id, grace_ms, line) in [
        ("plain", 5000, "echo up; sleep 600"),
        ("polite", 5000, "trap 'exit 7' TERM; sleep 600 & echo up; wait"),
        ("at-once", 0, "echo up; sleep 600"),
        ("stubborn", 100, "trap '' TERM; echo up; while :; do sleep 600; done"),
        (
            "scattered",
            100,
            "(trap '' TERM; setsid sleep 600 & nohup sleep 600 >/dev/null 2>&1 &); echo up; sleep 600",
        ),
    ] {
        started(client, id, json!({"shell": line}), "up").await?;
        let view = cancel(client, id, grace_ms).await?;
        ensure!(view.exit == Some(Exit::Cancelled) && view.background.is_empty(), "{line}: {view:?}");
        ensure!(shell(client, "ps -e -o comm= | grep -c sleep || true").await? == "0\n", "{line}");
        let again = client.post(&format!("/v1/execs/{id}/cancel"), &json!({})).await?;
        refused(&again, ErrorCode::NotRunning, None)?;
    }
    sandbox.stop().await
}

#[tokio::test]
async fn an_impatient_second_cancel_shortens_the_grace_of_the_first() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let line = "trap '' TERM; echo up; while :; do sleep 600; done";
    started(client, "c", json!({"shell": line}), "up").await?;
    ensure!(client.post("/v1/execs/c/cancel", &json!({"grace_ms": 60_000})).await?.status == 204);
    let view = cancel(client, "c", 0).await?;
    ensure!(view.exit == Some(Exit::Cancelled), "{view:?}");
    let long = client.post("/v1/execs/c/cancel", &json!({"grace_ms": 60_001})).await?;
    refused(&long, ErrorCode::InvalidRequest, Some("grace_ms"))?;
    sandbox.stop().await
}

#[tokio::test]
async fn a_signal_has_a_name_or_a_number_and_is_the_exit_it_causes() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    for (i, (name, signal)) in
        [("KILL", 9), ("SIGKILL", 9), ("9", 9), ("term", 15), ("15", 15), ("INT", 2), ("hup", 1), ("ABRT", 6)]
            .into_iter()
            .enumerate()
    {
        let id = format!("s{i}");
        started(client, &id, json!({"shell": "echo up; exec sleep 600"}), "up").await?;
        let path = format!("/v1/execs/{id}/signal");
        ensure!(client.post(&path, &json!({"signal": name})).await?.status == 204, "{name}");
        let view = client.ended(&id).await?;
        // A kill that was asked for is not the kernel's for want of memory.
        ensure!(view.exit == Some(Exit::Signalled { signal }) && view.hints.is_empty(), "{name}: {view:?}");
        refused(&client.post(&path, &json!({"signal": name})).await?, ErrorCode::NotRunning, None)?;
    }
    for (body, field) in [
        (json!({"signal": "NOPE"}), "signal"),
        (json!({"signal": "0"}), "signal"),
        (json!({"signal": "65"}), "signal"),
        (json!({"signal": 9}), "signal"),
        (json!({"signal": "TERM", "scope": "world"}), "scope"),
    ] {
        let answer = client.post("/v1/execs/s0/signal", &body).await?;
        refused(&answer, ErrorCode::InvalidRequest, Some(field)).with_context(|| body.to_string())?;
    }
    let unknown = client.post("/v1/execs/unknown/signal", &json!({"signal": "TERM"})).await?;
    refused(&unknown, ErrorCode::NotFound, None)?;
    sandbox.stop().await
}

#[tokio::test]
async fn a_signal_reaches_the_leader_its_group_or_the_whole_tree() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    // Each counts USR1 and tells on TERM what it counted.
    sandbox.write_app(
        "counts",
        r#"n=0; trap 'n=$((n+1)); echo $1 heard' USR1; trap 'echo $1=$n; exit' TERM; sleep 600 & echo $1 up; while :; do wait; done"#,
    )?;
    let line = "bash counts member & setsid bash counts outsider & . ./counts leader";
    for (scope, expected) in [
        (Some("leader"), ["leader=1", "member=0", "outsider=0"]),
        (Some("group"), ["leader=1", "member=1", "outsider=0"]),
        (None, ["leader=1", "member=1", "outsider=0"]),
        (Some("tree"), ["leader=1", "member=1", "outsider=1"]),
    ] {
        let id = scope.unwrap_or("default");
        client.start(json!({"id": id, "shell": line})).await?;
        for who in ["leader up", "member up", "outsider up"] {
            prints(client, id, who).await?;
        }
        let path = format!("/v1/execs/{id}/signal");
        let body = scope.map_or(json!({"signal": "USR1"}), |scope| json!({"signal": "USR1", "scope": scope}));
        ensure!(client.post(&path, &body).await?.status == 204, "{scope:?}");
        for who in expected.iter().filter_map(|count| count.strip_suffix("=1")) {
            prints(client, id, &format!("{who} heard")).await?;
        }
        ensure!(client.post(&path, &json!({"signal": "TERM", "scope": "tree"})).await?.status == 204);
        // Output of the other processes may arrive after the leader's exit, and is in the log all the same.
        client.ended(id).await?;
        let gone = |fact: &Fact| matches!(fact, Fact::ExecGone { exec } if exec.as_str() == id);
        let ended =
            |fact: &Fact| matches!(fact, Fact::ExecEnded { exec, background: 0, .. } if exec.as_str() == id);
        EventStream::open(client).await?.until(|fact| gone(fact) || ended(fact)).await?;
        let log = client.get(&format!("/v1/execs/{id}/output")).await?.text();
        for count in expected {
            ensure!(log.contains(count), "{scope:?}: no {count} in {log}");
        }
    }
    sandbox.stop().await
}

// ---- what stays behind ----

/// A process has no command line for a moment while it becomes another program.
const UNTIL_IT_SLEEPS: &str = "until pgrep -fx 'sleep 600' >/dev/null; do :; done";

fn commands(background: &[Process]) -> Vec<&str> {
    background.iter().map(|process| process.command.as_str()).collect()
}

async fn view(client: &Client, id: &str) -> Result<ExecView> {
    client.get(&format!("/v1/execs/{id}")).await?.json()
}

#[tokio::test]
async fn a_held_pipe_does_not_keep_an_exec_from_ending() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let ended = client.exec(json!({"id": "leaky", "shell": "sleep 600 & echo done"})).await?;
    ensure!(ended.exit == EXITED_0 && ended.hints == [Hint::Leaky], "{ended:?}");
    ensure!(stdout(&ended)? == "done\n" && ended.background.len() == 1, "{ended:?}");
    shell(client, UNTIL_IT_SLEEPS).await?;
    ensure!(commands(&view(client, "leaky").await?.background) == ["sleep 600"], "{ended:?}");
    ensure!(ended.duration_ms < Some(30_000), "{ended:?}");
    ensure!(client.status().await?.execs.iter().any(|exec| exec.id == ended.id), "not listed");
    let late = cancel_now(client, "leaky").await?;
    ensure!(late.exit == EXITED_0 && late.hints == ended.hints, "a late cancel changed the end: {late:?}");
    let mut events = EventStream::open(client).await?;
    let told = |fact: &Fact| matches!(fact, Fact::ExecEnded { exec, background: 1, .. } if *exec == ended.id);
    events.until(told).await?;
    events.until(|fact| matches!(fact, Fact::ExecGone { exec } if *exec == ended.id)).await?;
    ensure!(view(client, "leaky").await?.background.is_empty());
    ensure!(client.status().await?.execs.is_empty(), "still listed");
    sandbox.stop().await
}

#[tokio::test]
async fn a_background_process_that_let_go_of_the_output_is_listed_and_not_leaky() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    for (id, line) in [
        ("nohup", "nohup sleep 600 >/dev/null 2>&1 &"),
        ("setsid", "setsid sleep 600 >/dev/null 2>&1 &"),
        ("daemon", "(setsid sh -c 'sleep 600 >/dev/null 2>&1 & exit' >/dev/null 2>&1 &)"),
    ] {
        // Once it sleeps it has closed the output.
        let line = format!("{line}\n{UNTIL_IT_SLEEPS}; exit 5");
        let ended = client.exec(json!({"id": id, "shell": line})).await?;
        ensure!(ended.exit == Some(Exit::Exited { code: 5 }) && ended.hints.is_empty(), "{id}: {ended:?}");
        let left = view(client, id).await?.background;
        ensure!(commands(&left).contains(&"sleep 600"), "{id}: {left:?}");
        cancel_now(client, id).await?;
        let mut events = EventStream::open(client).await?;
        events.until(|fact| matches!(fact, Fact::ExecGone { exec } if exec.as_str() == id)).await?;
        ensure!(view(client, id).await?.background.is_empty(), "{id}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn what_the_background_prints_after_the_end_is_in_the_log_and_not_in_the_answer() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    shell(client, "mkfifo go").await?;
    let ended = client.exec(json!({"id": "late", "shell": "(read x <go; echo late) & echo done"})).await?;
    ensure!(ended.output_end == Some(5), "{ended:?}");
    shell(client, "echo >go").await?;
    let mut events = EventStream::open(client).await?;
    events.until(|fact| matches!(fact, Fact::ExecGone { exec } if exec.as_str() == "late")).await?;
    let log = client.get("/v1/execs/late/output").await?.text();
    ensure!(log.contains("done") && log.contains("late"), "{log}");
    let again = client.ended("late").await?;
    ensure!(stdout(&again)? == "done\n" && !again.truncated && again.output_end == Some(5), "{again:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn execs_are_listed_page_by_page() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let names: Vec<String> = (0..7).map(|i| format!("e{i}")).collect();
    for name in &names {
        client.exec(json!({"id": name, "argv": ["true"]})).await?;
    }
    let mut listed = Vec::new();
    loop {
        let after = listed.last().map_or(String::new(), |last| format!("&after={last}"));
        let page: Vec<ExecView> = client.get(&format!("/v1/execs?limit=3{after}")).await?.json()?;
        if page.is_empty() {
            break;
        }
        ensure!(page.len() <= 3);
        listed.extend(page.into_iter().map(|exec| exec.id.as_str().to_owned()));
    }
    ensure!(listed == names, "{listed:?}");
    sandbox.stop().await
}
