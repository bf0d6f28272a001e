//! The status that runtimed reports: ports, activity, files, and the counters of its control group.

use anyhow::{Context, Result, ensure};
use protocol::{CgroupVersion, ExecView, Exit, Hint, ListeningPort, Reason, Status, WorkspaceUse};
use serde_json::json;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::Duration;
use tests::control_group::{ControlGroup, Limits};
use tests::programs::{self, FORKER};
use tests::sandbox::PATIENCE;
use tests::shell::{cancel_now, shell, started, stderr, stdout};
use tests::viewer::Viewer;
use tests::{Client, Sandbox, tunnel};

/// Seldom enough that looking is not itself what keeps the sandbox busy.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Looks until the status is as wanted. Only for what time brings and no event tells.
async fn status_until(client: &Client, wanted: impl Fn(&Status) -> bool) -> Result<Status> {
    let mut last = None;
    let looking = async {
        loop {
            let status = client.status().await?;
            if wanted(&status) {
                return anyhow::Ok(status);
            }
            last = Some(status);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, looking).await;
    found.with_context(|| format!("never comes: {last:#?}"))?
}

// ---- ports ----

const SERVER: &str = r#"
import socket, sys
address, port = sys.argv[1], int(sys.argv[2])
listener = socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
print("here", flush=True)
while True: listener.accept()
"#;

#[tokio::test]
async fn a_listening_port_is_shown_with_its_address_and_the_process_behind_it() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    sandbox.write_app("server.py", SERVER)?;
    let mut expected = Vec::new();
    for (address, port) in
        [("127.0.0.1", 8001), ("::1", 8002), ("0.0.0.0", 8003), ("::", 8004), ("127.0.0.2", 8005)]
    {
        let argv = ["/usr/bin/python3", "server.py", address, &port.to_string()].map(str::to_owned);
        let view = started(client, &port.to_string(), json!({"argv": argv}), "here").await?;
        let process = protocol::Process { pid: view.pid.context("it runs")?, command: argv.join(" ") };
        expected.push(ListeningPort { port, address: address.to_owned(), process: Some(process) });
    }
    let mut ports: Vec<ListeningPort> = client.get("/v1/ports").await?.json()?;
    ports.sort_by_key(|port| port.port);
    ensure!(ports == expected, "{ports:#?}");
    ensure!(client.status().await?.ports.len() == 5);
    for port in &expected {
        cancel_now(client, &port.port.to_string()).await?;
    }
    let ports: Vec<ListeningPort> = client.get("/v1/ports").await?.json()?;
    ensure!(ports.is_empty(), "{ports:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn the_process_behind_a_port_is_found_however_it_was_started() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    sandbox.write_app("server.py", SERVER)?;
    // In a session of its own, its parent gone, its exec ended, with a name that is not for terminals.
    let name = "$(printf 'a\\033[31mb')";
    let daemon = format!("(exec -a \"{name}\" setsid /usr/bin/python3 server.py 127.0.0.1 8001 &)");
    started(client, "daemon", json!({"shell": daemon}), "here").await?;
    let ports: Vec<ListeningPort> = client.get("/v1/ports").await?.json()?;
    let process = ports.first().and_then(|port| port.process.clone()).context("a process")?;
    ensure!(process.command.ends_with("server.py 127.0.0.1 8001"), "{process:?}");
    ensure!(!process.command.contains('\u{1b}'), "{process:?}");
    let view = client.ended("daemon").await?;
    ensure!(view.background.contains(&process), "{view:?}");
    sandbox.stop().await
}

// ---- processes ----

/// Its first thread ends; what is left of it works.
const HEADLESS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *work(void *main_thread) {
    pthread_join(*(pthread_t *)main_thread, NULL);
    puts("here");
    fflush(stdout);
    for (;;) pause();
}
int main(void) {
    static pthread_t own, other;
    own = pthread_self();
    pthread_create(&other, NULL, work, &own);
    pthread_exit(NULL);
}
"#;

#[tokio::test]
async fn a_process_whose_first_thread_ended_is_no_zombie_and_ends_like_any_other() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    programs::build(HEADLESS, &sandbox.app().join("headless")).await?;
    started(client, "headless", json!({"argv": ["./headless"]}), "here").await?;
    let status = client.status().await?;
    ensure!((status.processes, status.zombies) == (3, 0), "{} {}", status.processes, status.zombies);
    let view = cancel_now(client, "headless").await?;
    ensure!(view.exit == Some(Exit::Cancelled) && view.hints.is_empty(), "{view:?}");
    tests::processes::settles(client, 1).await?;
    sandbox.stop().await
}

// ---- activity ----

/// Why the sandbox is busy, without the processor: its counter may be that of the whole machine.
async fn reasons(client: &Client) -> Result<Vec<Reason>> {
    let mut reasons = client.status().await?.activity.reasons;
    reasons.retain(|reason| !matches!(reason, Reason::Cpu { .. }));
    Ok(reasons)
}

#[tokio::test]
async fn whatever_goes_on_is_a_reason_to_be_busy_and_its_end_is_not() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    ensure!(reasons(client).await?.is_empty());

    started(client, "e", json!({"shell": "echo here; sleep 1000"}), "here").await?;
    let exec = protocol::ExecId::parse("e").context("a name")?;
    ensure!(reasons(client).await? == [Reason::Exec { exec }]);
    cancel_now(client, "e").await?;
    ensure!(reasons(client).await?.is_empty());

    client.put("/v1/holds/h", &json!({"ttl_s": 60})).await?;
    let hold = protocol::HoldName::parse("h").context("a name")?;
    ensure!(reasons(client).await? == [Reason::Hold { hold }]);
    client.send(hyper::Method::DELETE, "/v1/holds/h", bytes::Bytes::new()).await?;
    ensure!(reasons(client).await?.is_empty());

    // Background processes of an exec are not activity: a dev server would keep every sandbox awake.
    shell(client, "(setsid sleep 1000 >/dev/null 2>&1 &)").await?;
    ensure!(reasons(client).await?.is_empty());

    let service = json!({"name": "web", "command": "sleep 1000", "health": {"log": "never"}});
    client.put("/v1/services", &json!({"services": [service]})).await?;
    let service = protocol::ServiceName::parse("web").context("a name")?;
    ensure!(reasons(client).await? == [Reason::ServiceStarting { service }]);
    sandbox.stop().await
}

#[tokio::test]
async fn viewers_and_tunnels_are_reasons_for_as_long_as_they_are_connected() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    sandbox.write_app("server.py", SERVER)?;
    started(client, "server", json!({"shell": "(/usr/bin/python3 server.py 127.0.0.1 8001 &)"}), "here")
        .await?;
    client.ended("server").await?;
    let request = json!({"id": "tty", "shell": "echo here; exit 0", "tty": {"cols": 80, "rows": 24}});
    client.exec(request).await?;
    ensure!(reasons(client).await?.is_empty(), "{:?}", reasons(client).await?);

    let tunnels = [tunnel::open(client, 8001).await?, tunnel::open(client, 8001).await?];
    ensure!(reasons(client).await? == [Reason::Tunnels { count: 2 }]);
    drop(tunnels);
    status_until(client, |status| !has_kind(status, "tunnels")).await?;

    started(
        client,
        "live",
        json!({"shell": "echo here; sleep 1000", "tty": {"cols": 80, "rows": 24}}),
        "here",
    )
    .await?;
    let viewer = Viewer::attach(client, "live", "").await?;
    ensure!(reasons(client).await?.contains(&Reason::Viewers { count: 1 }), "{:?}", reasons(client).await?);
    drop(viewer);
    status_until(client, |status| !has_kind(status, "viewers")).await?;
    sandbox.stop().await
}

fn has_kind(status: &Status, kind: &str) -> bool {
    let kinds = status.activity.reasons.iter().map(|reason| serde_json::to_value(reason).unwrap_or_default());
    kinds.into_iter().any(|reason| reason["kind"] == kind)
}

#[tokio::test]
async fn use_of_the_processor_is_a_reason_until_it_ends() -> Result<()> {
    let group = ControlGroup::new(Limits::default())?;
    let runtimed = group.start().await?;
    let client = runtimed.client();
    let idle = status_until(client, |status| !status.activity.busy).await?;
    // Not an exec that runs, which would be a reason by itself.
    let burn = json!({"id": "burn", "shell": "(while :; do :; done >/dev/null 2>&1 &)"});
    client.exec(burn).await?;
    let busy = status_until(client, |status| status.activity.busy && has_kind(status, "cpu")).await?;
    ensure!(busy.activity.since_ms > idle.activity.since_ms, "{:?} {:?}", idle.activity, busy.activity);
    cancel_now(client, "burn").await?;
    let idle = status_until(client, |status| !status.activity.busy).await?;
    ensure!(idle.activity.since_ms > busy.activity.since_ms && idle.activity.reasons.is_empty());
    runtimed.stop().await
}

// ---- files ----

async fn workspace(client: &Client) -> Result<WorkspaceUse> {
    let counted = |status: &Status| status.workspace.measured_ms > 0 && !status.workspace.partial;
    Ok(status_until(client, counted).await?.workspace)
}

#[tokio::test]
async fn the_use_of_a_closed_and_tangled_workspace_is_counted() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let home = sandbox.home();
    std::fs::write(home.join("megabyte"), vec![1; 1 << 20])?;
    std::fs::File::create(home.join("sparse"))?.set_len(1 << 40)?;
    symlink("loop", home.join("loop"))?;
    symlink("..", home.join("up"))?;
    symlink("/", home.join("everything"))?;
    nix::unistd::mkfifo(&home.join("fifo"), nix::sys::stat::Mode::S_IRWXU)?;
    // As tools leave it: only the user may enter.
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700))?;
    let used = workspace(sandbox.client()).await?;
    // workspace, workspace/app, and the six above.
    ensure!(used.files == 8, "{used:?}");
    ensure!((1 << 20..2 << 20).contains(&used.used_bytes), "{used:?}");
    ensure!(used.total_bytes > used.free_bytes && used.free_bytes > 0, "{used:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn a_deep_and_crowded_workspace_is_counted_while_others_are_answered() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let (home, client) = (sandbox.home(), sandbox.client());
    shell(client, &deep(100)).await?;
    // More than one look counts.
    let crowd = home.join("crowd");
    std::fs::create_dir(&crowd)?;
    for number in 0..3_000 {
        std::fs::write(crowd.join(number.to_string()), "")?;
    }
    chown(&crowd, Some(1000), Some(1000))?;
    let used = workspace(client).await?;
    ensure!(used.files == 2 + 100 + 1 + 3_000, "{used:?}");
    sandbox.stop().await
}

/// Directories in directories. Not by a shell, which writes down the whole path at every step.
fn deep(levels: u32) -> String {
    let name = "a_directory_with_a_long_name";
    let steps = format!("import os\nfor _ in range({levels}):\n os.mkdir('{name}')\n os.chdir('{name}')");
    format!("exec /usr/bin/python3 -c \"{steps}\"")
}

#[tokio::test]
async fn a_workspace_deeper_than_a_path_may_be_long_is_counted_in_part() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    shell(sandbox.client(), &deep(1_000)).await?;
    let used = sandbox.client().status().await?.workspace;
    ensure!(used.partial && (100..200).contains(&used.files), "{used:?}");
    // The user can still take it away, so that the test can.
    shell(sandbox.client(), "rm -rf a_directory_with_a_long_name").await?;
    sandbox.stop().await
}

#[tokio::test]
async fn what_the_user_may_not_look_into_makes_the_count_partial() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let secret = sandbox.home().join("secret");
    std::fs::create_dir(&secret)?;
    std::fs::write(secret.join("file"), "x")?;
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o700))?;
    let used = sandbox.client().status().await?.workspace;
    ensure!(used.partial && used.files == 3, "{used:?}");
    sandbox.stop().await
}

// ---- control group ----

const ALLOCATE: &str = "/usr/bin/python3 -c 'print(\"here\", flush=True); x = bytearray(200 << 20)'";
const MEMORY: u64 = 64 << 20;

fn oom_kills(view: &ExecView) -> bool {
    view.hints.iter().any(|hint| matches!(hint, Hint::OomKills { times: 1.. }))
}

#[tokio::test]
async fn the_counters_of_the_control_group_are_shown() -> Result<()> {
    let group = ControlGroup::new(Limits { memory_bytes: Some(MEMORY), pids: Some(64) })?;
    let runtimed = group.start().await?;
    let cgroup = runtimed.client().status().await?.cgroup;
    let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    ensure!(cgroup.version == if unified { CgroupVersion::V2 } else { CgroupVersion::V1 }, "{cgroup:?}");
    ensure!(cgroup.memory_limit_bytes == Some(MEMORY) && cgroup.pids_limit == Some(64), "{cgroup:?}");
    ensure!(cgroup.cpu_usage_us.is_some_and(|us| us > 0), "{cgroup:?}");
    ensure!(cgroup.memory_bytes.is_some_and(|bytes| (1..MEMORY).contains(&bytes)), "{cgroup:?}");
    ensure!(cgroup.memory_peak_bytes >= cgroup.memory_bytes || unified, "{cgroup:?}");
    ensure!(cgroup.pids.is_some_and(|pids| (1..64).contains(&pids)), "{cgroup:?}");
    ensure!((cgroup.oom_kills, cgroup.pids_limit_hits) == (Some(0), Some(0)), "{cgroup:?}");
    runtimed.stop().await
}

#[tokio::test]
async fn a_job_that_takes_too_much_memory_is_told_as_such_and_nobody_else_is() -> Result<()> {
    let group = ControlGroup::new(Limits { memory_bytes: Some(MEMORY), pids: None })?;
    let runtimed = group.start().await?;
    let client = runtimed.client();
    started(
        client,
        "bystander",
        json!({"shell": "echo here; read line; exit 5", "stdin_open": true}),
        "here",
    )
    .await?;

    let leader = client.exec(json!({"shell": format!("exec {ALLOCATE}")})).await?;
    ensure!(leader.exit == Some(Exit::Oom) && oom_kills(&leader), "{leader:?}");
    ensure!(stdout(&leader)? == "here\n", "{leader:?}");

    // The leader survives: its exit is what it is, and what happened below it stands beside.
    let child = client.exec(json!({"shell": format!("{ALLOCATE}; echo $?; exit 3")})).await?;
    ensure!(child.exit == Some(Exit::Exited { code: 3 }) && oom_kills(&child), "{child:?}");
    ensure!(stdout(&child)? == "here\n137\n", "{child:?}");

    // A SIGKILL by a user is not an OOM kill.
    started(client, "killed", json!({"shell": "echo here; sleep 1000"}), "here").await?;
    client.post("/v1/execs/killed/signal", &json!({"signal": "KILL"})).await?;
    let killed = client.ended("killed").await?;
    ensure!(killed.exit == Some(Exit::Signalled { signal: 9 }) && killed.hints.is_empty(), "{killed:?}");

    ensure!(client.status().await?.cgroup.oom_kills == Some(2), "{:?}", client.status().await?.cgroup);
    client.send(hyper::Method::POST, "/v1/execs/bystander/stdin", bytes::Bytes::from_static(b"go\n")).await?;
    let bystander = client.ended("bystander").await?;
    ensure!(bystander.exit == Some(Exit::Exited { code: 5 }), "{bystander:?}");
    runtimed.stop().await
}

#[tokio::test]
async fn a_fork_bomb_hits_its_limit_and_runtimed_answers_and_ends_it() -> Result<()> {
    let group = ControlGroup::new(Limits { memory_bytes: None, pids: Some(64) })?;
    let runtimed = group.start().await?;
    let client = runtimed.client();
    programs::build(FORKER, &runtimed.path().join("home/workspace/app/forker")).await?;
    let view = client.exec(json!({"argv": ["./forker", "wide", "200"]})).await?;
    ensure!(view.exit == Some(Exit::Exited { code: 75 }), "{view:?} {}", stderr(&view)?);
    ensure!(view.hints.iter().any(|hint| matches!(hint, Hint::PidsLimit { times: 1.. })), "{view:?}");
    ensure!(view.background.len() > 40, "{} are left", view.background.len());

    // With no process left to be had, everything that needs none works, and the rest is refused.
    let status = client.status().await?;
    ensure!(
        status.cgroup.pids >= Some(60) && status.cgroup.pids_limit_hits >= Some(1),
        "{:?}",
        status.cgroup
    );
    let refused = client.post("/v1/execs?wait_ms=60000", &json!({"shell": "true"})).await?;
    ensure!(refused.status == 200 || refused.status >= 400, "{} {}", refused.status, refused.text());
    if let Ok(view) = refused.json::<ExecView>() {
        ensure!(!matches!(view.exit, Some(Exit::Lost) | None), "{view:?}");
    }
    cancel_now(client, view.id.as_str()).await?;
    tests::processes::settles(client, 1).await?;

    let bomb = json!({"id": "bomb", "shell": "echo here; bomb() { bomb | bomb & }; bomb; sleep 1000"});
    started(client, "bomb", bomb, "here").await?;
    for _ in 0..20 {
        ensure!(client.get("/healthz").await?.status == 200);
        client.status().await?;
    }
    cancel_now(client, "bomb").await?;
    tests::processes::settles(client, 1).await?;
    ensure!(shell(client, "echo on").await? == "on\n");
    runtimed.stop().await
}
