//! The life of a task: its phases, every way it can end, and the queue.

use anyhow::{Context, Result, ensure};
use protocol::{
    BuildStatus, Changes, Checkpoint, ErrorCode, Exit, Fact, FailureReason, HealthStatus, Reason, Stream,
    TaskFact, TaskPhase, TaskStatus, TaskView,
};
use serde_json::{Value, json};
use tests::events::events_so_far;
use tests::shell::shell;
use tests::tasks::{TaskStream, cancel, ended, phases, run, said, story, submit, task, task_with, view};
use tests::{Sandbox, Services};

const EXITED_0: Option<Exit> = Some(Exit::Exited { code: 0 });

#[tokio::test]
async fn a_task_runs_through_its_phases_and_says_all_about_its_end() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let line = "cat; echo; echo \"$SLIPWAY_PROMPT $FROM_ENV\"; echo oops >&2; echo text > made; pwd";
    let fields =
        json!({"prompt": "héllo", "env": {"FROM_ENV": "secret-value"}, "build": {"command": "cat made"}});
    let result = run(client, task_with("t1", line, fields)).await?;
    ensure!(result.status == TaskStatus::Succeeded && result.exit == EXITED_0, "{result:?}");
    ensure!(matches!(result.checkpoint, Checkpoint::Taken { .. }), "{result:?}");
    let changes = result.files_changed.as_ref().context("changes")?;
    ensure!((changes.added, changes.added_lines, changes.files.len()) == (1, 1, 1), "{changes:?}");
    ensure!(result.build.status == BuildStatus::Passed, "{result:?}");
    ensure!(result.health.status == HealthStatus::Unknown && result.usage.is_none(), "{result:?}");
    let app = sandbox.app();
    let words = format!("héllo\nhéllo secret-value\n{}", app.display());
    ensure!(result.final_message.as_ref().is_some_and(|text| text.data == words), "{result:?}");
    let events = story(client, "t1").await?;
    use TaskPhase::{Agent, Build, Checkpoint as Taking, Preparing, Queued};
    ensure!(phases(&events) == [Queued, Preparing, Taking, Agent, Build], "{events:?}");
    let lines = said(&events, Stream::Stdout)?;
    ensure!(lines[..2] == [b"h\xc3\xa9llo".to_vec(), b"h\xc3\xa9llo secret-value".to_vec()], "{lines:?}");
    ensure!(said(&events, Stream::Stderr)? == [b"oops".to_vec()]);
    let facts: Vec<&str> = vec!["task.queued", "task.started", "task.ended"];
    let told = events_so_far(client).await?;
    let kinds: Vec<&str> =
        told.iter().map(|event| event.fact.kind()).filter(|kind| kind.starts_with("task.")).collect();
    ensure!(kinds == facts, "{kinds:?}");
    // Variables of the environment appear nowhere except in the agent's own output.
    let start = std::fs::read_to_string(sandbox.control_dir().join("tasks/t1/task.json"))?;
    ensure!(!start.contains("secret-value") && !format!("{told:?}").contains("secret-value"));
    sandbox.stop().await
}

#[tokio::test]
async fn every_way_to_end_has_its_reason() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let none = || json!({});
    let table: [(&str, &str, Value, TaskStatus, Option<FailureReason>); 8] = [
        ("nothing", "true", none(), TaskStatus::Succeeded, None),
        ("fails", "exit 3", none(), TaskStatus::Failed, Some(FailureReason::AgentFailed)),
        ("killed", "kill -9 $$", none(), TaskStatus::Failed, Some(FailureReason::AgentFailed)),
        (
            "silent",
            "sleep 1000",
            json!({"idle_timeout_ms": 300}),
            TaskStatus::Failed,
            Some(FailureReason::IdleTimedOut),
        ),
        (
            "slow",
            "while :; do echo x; sleep 0.05; done",
            json!({"timeout_ms": 1500, "idle_timeout_ms": 1400}),
            TaskStatus::Failed,
            Some(FailureReason::TimedOut),
        ),
        (
            "unbuilt",
            "true",
            json!({"build": {"command": "echo broken; exit 2"}}),
            TaskStatus::Failed,
            Some(FailureReason::BuildFailed),
        ),
        (
            "long build",
            "true",
            json!({"build": {"command": "sleep 1000", "timeout_ms": 100}}),
            TaskStatus::Failed,
            Some(FailureReason::BuildFailed),
        ),
        (
            "no program",
            "",
            json!({"agent": {"kind": "command", "argv": ["/no/such/program"]}}),
            TaskStatus::Failed,
            Some(FailureReason::SpawnFailed),
        ),
    ];
    for (name, line, fields, status, reason) in table {
        let id = name.replace(' ', "-");
        let result = run(client, task_with(&id, line, fields)).await.with_context(|| name.to_owned())?;
        ensure!((result.status, result.failure_reason) == (status, reason), "{name}: {result:?}");
        ensure!(result.message.is_some() == (reason.is_some() || name == "nothing"), "{name}: {result:?}");
        story(client, &id).await.with_context(|| name.to_owned())?;
    }
    let nothing = ended(client, "nothing").await?;
    ensure!(
        nothing.message.as_deref() == Some("the agent printed nothing and changed nothing"),
        "{nothing:?}"
    );
    ensure!(
        nothing.files_changed == Some(Changes::default()) && nothing.final_message.is_none(),
        "{nothing:?}"
    );
    let unbuilt = ended(client, "unbuilt").await?.build;
    ensure!(unbuilt.output.as_ref().is_some_and(|text| text.data == "broken"), "{unbuilt:?}");
    let built = story(client, "unbuilt")
        .await?
        .into_iter()
        .any(|event| matches!(event.fact, TaskFact::Build { build } if build.status == BuildStatus::Failed));
    ensure!(built, "no build event");
    sandbox.stop().await
}

#[tokio::test]
async fn what_a_task_leaves_running_is_killed_unless_it_asks() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let left = "(trap '' TERM HUP; exec setsid sleep 12345) & \
                until pgrep -fx 'sleep 12345' >/dev/null; do :; done; echo started";
    for (id, keep, expected) in [("kills", false, ""), ("keeps", true, "sleep 12345")] {
        let result = run(client, task_with(id, left, json!({"keep_processes": keep}))).await?;
        ensure!(result.status == TaskStatus::Succeeded && result.exit == EXITED_0, "{result:?}");
        let running = shell(client, "pgrep -fa '^sleep 12345' | cut -d' ' -f2- || true").await?;
        ensure!(running.trim() == expected, "{id}: {running:?}");
        story(client, id).await?;
    }
    sandbox.stop().await
}

/// Waits until a task is in a phase.
async fn reaches(sandbox: &Sandbox, id: &str, wanted: TaskPhase) -> Result<()> {
    let mut stream = TaskStream::open(sandbox.client(), id, 0, true).await?;
    stream.until(|fact| matches!(fact, TaskFact::Status { phase, .. } if *phase == wanted)).await?;
    Ok(())
}

#[tokio::test]
async fn cancel_ends_it_in_every_phase() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    for n in 0..3000 {
        sandbox.write_app(&format!("file-{n}"), "text\n")?;
    }
    let hard = "trap '' TERM; (trap '' TERM; setsid sleep 777) & while :; do sleep 1; done";
    submit(client, task("agent", hard)).await?;
    submit(client, task("queued", "touch never")).await?;
    ensure!(view(client, "queued").await?.ahead == Some(1));
    let queued = cancel(client, "queued", 0).await?;
    ensure!(queued.status == TaskStatus::Cancelled, "{queued:?}");
    ensure!(phases(&story(client, "queued").await?) == [TaskPhase::Queued]);
    reaches(&sandbox, "agent", TaskPhase::Agent).await?;
    let agent = cancel(client, "agent", 100).await?;
    ensure!(agent.status == TaskStatus::Cancelled && agent.exit == Some(Exit::Cancelled), "{agent:?}");
    ensure!(agent.files_changed.is_some(), "{agent:?}");
    ensure!(shell(client, "pgrep -f '^sleep 777' || true").await?.is_empty(), "something lives on");
    for n in 3000..6000 {
        sandbox.write_app(&format!("file-{n}"), "text\n")?;
    }
    submit(client, task("checkpoint", "touch never; sleep 1000")).await?;
    reaches(&sandbox, "checkpoint", TaskPhase::Checkpoint).await?;
    ensure!(cancel(client, "checkpoint", 0).await?.status == TaskStatus::Cancelled);
    submit(client, task_with("build", "true", json!({"build": {"command": "sleep 1000"}}))).await?;
    reaches(&sandbox, "build", TaskPhase::Build).await?;
    ensure!(cancel(client, "build", 0).await?.status == TaskStatus::Cancelled);
    let services = Services::of(&sandbox).await?;
    services.put(json!([{"name": "web", "command": "sleep 1000", "port": 1234}])).await?;
    submit(client, task_with("health", "true", json!({"health_timeout_ms": 60000}))).await?;
    reaches(&sandbox, "health", TaskPhase::Health).await?;
    let health = cancel(client, "health", 0).await?;
    ensure!(health.status == TaskStatus::Cancelled && health.exit == EXITED_0, "{health:?}");
    let again = client.post("/v1/tasks/health/cancel", &json!({})).await?;
    ensure!(again.code()? == ErrorCode::NotRunning, "{}", again.text());
    for id in ["agent", "checkpoint", "build", "health"] {
        story(client, id).await.with_context(|| id.to_owned())?;
    }
    ensure!(!sandbox.app().join("never").exists());
    sandbox.stop().await
}

#[tokio::test]
async fn the_same_id_is_the_same_task_and_many_at_once_run_one_by_one() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let line = "[ -e running ] && exit 9; touch running; sleep 0.05; rm running; echo $SLIPWAY_TASK >> order";
    let request = |n: usize| task(&format!("t{n}"), line);
    let mut asking = tokio::task::JoinSet::new();
    for n in [0, 0, 1, 1, 2, 2] {
        let (client, request) = (client.clone(), request(n));
        asking.spawn(async move { submit(&client, request).await });
    }
    while let Some(asked) = asking.join_next().await {
        asked??;
    }
    for n in 0..3 {
        let result = ended(client, &format!("t{n}")).await?;
        ensure!(result.status == TaskStatus::Succeeded, "{result:?}");
    }
    let order = shell(client, "sort order | uniq -c | awk '{print $1 $2}'").await?;
    ensure!(order == "1t0\n1t1\n1t2\n", "{order}");
    let other = client.post("/v1/tasks", &task("t0", "something else")).await?;
    ensure!(other.code()? == ErrorCode::Conflict, "{}", other.text());
    ensure!(submit(client, request(0)).await?.status == TaskStatus::Succeeded, "the same answer later");
    let listed: Vec<TaskView> = client.get("/v1/tasks?after=t0&limit=1").await?.json()?;
    ensure!(listed.len() == 1 && listed[0].id.as_str() == "t1" && listed[0].result.is_none(), "{listed:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn the_queue_keeps_its_order_and_its_limit_and_is_a_reason_to_be_busy() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    submit(client, task("first", "sleep 1000")).await?;
    let mut taken = Vec::new();
    let refused = loop {
        let id = format!("q{:03}", taken.len());
        let answer = client.post("/v1/tasks", &task(&id, "true")).await?;
        if answer.status != 202 {
            break answer;
        }
        taken.push(id);
    };
    ensure!(refused.code()? == ErrorCode::TooMany && taken.len() == 64, "{} {}", taken.len(), refused.text());
    let reasons = client.status().await?.activity.reasons;
    let tasks = reasons.iter().filter(|reason| matches!(reason, Reason::Task { .. })).count();
    ensure!(tasks == 65, "{reasons:?}");
    for id in &taken[5..] {
        cancel(client, id, 0).await?;
    }
    cancel(client, "first", 0).await?;
    for id in &taken[..5] {
        ensure!(ended(client, id).await?.status == TaskStatus::Succeeded);
    }
    let started = events_so_far(client).await?.into_iter().filter_map(|event| match event.fact {
        Fact::TaskStarted { task } => Some(task.to_string()),
        _ => None,
    });
    let expected: Vec<String> = std::iter::once("first".to_owned()).chain(taken[..5].to_vec()).collect();
    ensure!(started.collect::<Vec<_>>() == expected);
    sandbox.stop().await
}

#[tokio::test]
async fn the_manifest_says_how_to_build_and_services_hear_of_the_end() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let mut services = Services::of(&sandbox).await?;
    // Written by the agent itself: read again before the build.
    let manifest = "build: { command: test -e built-by-agent, timeout: 20s }\nservices:\n  web: { command: sleep 1000, restart_after_task: true }\n";
    sandbox
        .write_app("sandbox.yaml", "services:\n  web: { command: sleep 1000, restart_after_task: true }\n")?;
    services.until("web", |fact| matches!(fact, Fact::ServiceStarted { .. })).await?;
    let line = format!("printf '%s' '{manifest}' > sandbox.yaml; touch built-by-agent");
    let result = run(client, task_with("t", &line, json!({"health_timeout_ms": 30000}))).await?;
    ensure!(result.status == TaskStatus::Succeeded, "{result:?}");
    ensure!(result.build.status == BuildStatus::Passed, "{result:?}");
    ensure!(result.health.status == HealthStatus::Healthy, "{result:?}");
    services.until("web", |fact| matches!(fact, Fact::ServiceStarted { .. })).await?;
    let line = "echo 'build: { command: sleep 1000, timeout: 200ms }' > sandbox.yaml";
    let result = run(client, task("slow-build", line)).await?;
    ensure!(result.failure_reason == Some(FailureReason::BuildFailed), "{result:?}");
    ensure!(result.build.exit == Some(Exit::TimedOut), "{result:?}");
    services.put(json!([{"name": "bad", "command": "sleep 1000", "port": 1}])).await?;
    let fields = json!({"health_timeout_ms": 500, "build": {"command": ""}});
    let result = run(client, task_with("unwell", "true", fields)).await?;
    ensure!(
        result.status == TaskStatus::Succeeded,
        "services are reported, they do not fail a task: {result:?}"
    );
    ensure!(result.health.status == HealthStatus::Unhealthy, "{result:?}");
    ensure!(result.health.unready.iter().any(|name| name.as_str() == "bad"), "{result:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn a_wrong_request_is_refused_by_its_field() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    for (fields, field) in [
        (json!({"prompt": "x".repeat(100 * 1024 + 1)}), "prompt"),
        (json!({"prompt": "a\u{0}"}), "prompt"),
        (json!({"agent": {"kind": "command", "argv": []}}), "agent.argv"),
        (json!({"agent": {"kind": "unknown"}}), "agent"),
        (json!({"timeout_ms": 0}), "timeout_ms"),
        (json!({"idle_timeout_ms": 0}), "idle_timeout_ms"),
        (json!({"health_timeout_ms": 99_999_999}), "health_timeout_ms"),
        (json!({"env": {"A=B": "x"}}), "env.A=B"),
        (json!({"id": "../x"}), "id"),
    ] {
        let answer = sandbox.client().post("/v1/tasks", &task_with("t", "true", fields)).await?;
        let error = answer.error()?.error;
        let found = error.detail.field.clone().unwrap_or_default();
        ensure!(found.starts_with(field), "{field}: {error:?}");
    }
    let listed: Vec<TaskView> = sandbox.client().get("/v1/tasks").await?.json()?;
    ensure!(listed.is_empty(), "{listed:?}");
    sandbox.stop().await
}
