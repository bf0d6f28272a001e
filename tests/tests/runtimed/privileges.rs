//! Privileges of a job: those of its user, and none of PID 1's.

use anyhow::{Context, Result, ensure};
use protocol::Exit;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use tests::launch::{self, Launched};
use tests::processes::{self, ProcessEntry};
use tests::programs::{SPY, SPY_TRIES};
use tests::shell::{shell, started, stdout};
use tests::{Client, Sandbox};
use tokio::process::Command;

/// The fields of `/proc/self/status` of a job.
async fn status_of_a_job(client: &Client) -> Result<BTreeMap<String, String>> {
    let view = client.exec(json!({"argv": ["cat", "/proc/self/status"]})).await?;
    let fields = stdout(&view)?;
    let pair = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    Ok(fields.lines().filter_map(pair).collect())
}

const NONE: &str = "0000000000000000";

#[tokio::test]
async fn a_job_is_its_user_and_no_more() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let status = status_of_a_job(sandbox.client()).await?;
    let own = status["NSpid"].clone();
    for (field, expected) in [
        ("Uid", "1000 1000 1000 1000"),
        ("Gid", "1000 1000 1000 1000"),
        ("Groups", ""),
        ("CapInh", NONE),
        ("CapPrm", NONE),
        ("CapEff", NONE),
        ("CapAmb", NONE),
        ("NoNewPrivs", "1"),
        ("SigBlk", NONE),
        ("SigIgn", NONE),
        ("SigCgt", NONE),
        ("Umask", "0022"),
        // A session and a process group of its own.
        ("NSsid", own.as_str()),
        ("NSpgid", own.as_str()),
        ("Seccomp", "0"),
    ] {
        ensure!(status[field] == expected, "{field} is {:?}, not {expected:?}", status[field]);
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_job_has_the_same_rights_whatever_it_is_started_for() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    // `ls` itself opens the directory it lists.
    let line =
        "ls /proc/self/fd | tr '\\n' ' '; grep -E '^(CapEff|NoNewPrivs|SigIgn|SigBlk)' /proc/self/status";
    let expected = format!("0 1 2 3 SigBlk:{NONE}SigIgn:{NONE}CapEff:{NONE}NoNewPrivs:1");
    let same = |printed: &str| printed.replace(['\t', '\r', '\n'], "") == expected;
    for extra in [
        json!({}),
        json!({"stdin": "x"}),
        json!({"stdin_open": true}),
        json!({"tty": {"cols": 80, "rows": 24}}),
        json!({"cwd": "/"}),
        json!({"timeout_ms": 60_000}),
    ] {
        let mut request = json!({"shell": line});
        merge(&mut request, &extra);
        let printed = stdout(&client.exec(request).await?)?;
        ensure!(same(&printed), "{extra}: {printed:?}");
    }
    let service = json!({"name": "web", "command": format!("({line}) >seen; mv seen done; sleep 1000")});
    let answer = client.put("/v1/services", &json!({"services": [service]})).await?;
    ensure!(answer.status == 200, "{}", answer.text());
    let printed = shell(client, "until [ -e done ]; do sleep 0.01; done; cat done").await?;
    ensure!(same(&printed), "service: {printed:?}");
    sandbox.stop().await
}

fn merge(request: &mut Value, extra: &Value) {
    for (name, value) in extra.as_object().into_iter().flatten() {
        request[name] = value.clone();
    }
}

#[tokio::test]
async fn a_job_gets_a_clean_environment() -> Result<()> {
    let sandbox = Sandbox::start_with(&["SECRET=of-the-driver", "TERM=dumb"]).await?;
    let env = json!({"GIVEN": "by the caller", "LANG": "de_DE.UTF-8"});
    let view = sandbox.client().exec(json!({"argv": ["env"], "env": env})).await?;
    let printed = stdout(&view)?;
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    let home = format!("HOME={}", sandbox.home().display());
    let expected = [
        "GIVEN=by the caller",
        &home,
        "LANG=de_DE.UTF-8",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slipway/agents/bin",
        "SLIPWAY_STATUS_URL=http://127.0.0.1:900/",
        "USER=sandbox",
    ];
    ensure!(lines == expected, "{lines:#?}");
    sandbox.stop().await
}

#[tokio::test]
async fn the_kernel_prefers_to_kill_a_job() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let view = started(client, "job", json!({"shell": "echo here; exec sleep 1000"}), "here").await?;
    let job = processes::from_inside(sandbox.pid()?, view.pid.context("it runs")?)?;
    let shim = ProcessEntry::at(job.parent).context("its shim")?;
    let score = |seen: &ProcessEntry| std::fs::read_to_string(format!("/proc/{}/oom_score_adj", seen.pid));
    let init = ProcessEntry::at(sandbox.pid()?).context("PID 1")?;
    let scores = [score(&job)?, score(&shim)?, score(&init)?].map(|text| text.trim().to_owned());
    ensure!(scores == ["500", "0", "0"], "job, shim, PID 1: {scores:?}");
    sandbox.stop().await
}

/// The parent of runtimed may ignore signals; jobs must not inherit that.
#[tokio::test]
async fn a_job_ignores_nothing_that_the_starter_of_runtimed_ignored() -> Result<()> {
    let deaf = "trap '' {1..8} {10..16} 18 {20..31} {34..64}; exec \"$0\"";
    let mut command = Command::new("bash");
    command.arg("-c").arg(deaf).arg(launch::binary()?);
    let runtimed = Launched::without_namespace(command).await?;
    let status = status_of_a_job(runtimed.client()).await?;
    ensure!(status["SigIgn"] == NONE && status["SigBlk"] == NONE, "{status:?}");
    // runtimed itself handles SIGTERM.
    runtimed.stop().await
}

#[tokio::test]
async fn a_job_does_not_inherit_what_runtimed_was_started_with() -> Result<()> {
    let mut command = Command::new("bash");
    let open = "exec 7</etc/shadow 9>/dev/null; ulimit -c 0; umask 0; cd /root; exec \"$0\"";
    command.arg("-c").arg(open).arg(launch::binary()?);
    let runtimed = Launched::without_namespace(command).await?;
    let printed = shell(runtimed.client(), "ls /proc/self/fd | tr '\\n' ' '; umask; pwd").await?;
    let app = runtimed.path().join("home/workspace/app");
    ensure!(printed == format!("0 1 2 3 0022\n{}\n", app.display()), "{printed:?}");
    runtimed.stop().await
}

#[tokio::test]
async fn a_job_cannot_reach_the_control_directory() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let control = sandbox.control_dir();
    let control = control.display();
    for line in [
        format!("ls {control}"),
        format!("cat {control}/events/*"),
        format!("cat {control}/sock"),
        format!("echo x >>{control}/new"),
        format!("echo x >>{control}/execs/new"),
        format!("mv {control} {control}.old"),
        format!("rm -rf {control}"),
        format!("ln -s /tmp {control}/link"),
        format!("chmod 777 {control}"),
        format!("mkdir {control}/../new"),
        format!("rm -rf {control}/../public"),
    ] {
        let view = sandbox.client().exec(json!({"shell": format!("exec 2>&1; {line}")})).await?;
        let said = stdout(&view)?;
        let refused = said.contains("Permission denied") || said.contains("Operation not permitted");
        ensure!(view.exit != Some(Exit::Exited { code: 0 }) && refused, "{line}: {said}");
    }
    let curl = format!("curl -s -o /dev/null --unix-socket {control}/sock http://x/v1/status");
    let view = sandbox.client().exec(json!({"shell": curl})).await?;
    ensure!(view.exit == Some(Exit::Exited { code: 7 }), "curl could connect: {view:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn a_job_cannot_look_into_pid_1_or_a_shim_or_change_them() -> Result<()> {
    let sandbox = Sandbox::start_with(&["RUNTIMED_SECRET=x"]).await?;
    let client = sandbox.client();
    sandbox.write_app("spy.py", SPY)?;
    for whom in ["1", "$PPID"] {
        let printed = shell(client, &format!("/usr/bin/python3 spy.py {whom}")).await?;
        let allowed: Vec<&str> = printed.lines().filter(|line| *line != "EPERM").collect();
        ensure!(printed.lines().count() == SPY_TRIES && allowed.is_empty(), "{whom}: {allowed:?}");
    }
    // The spy can read its own processes, so its check is not vacuous.
    let own = shell(client, "sleep 60 & /usr/bin/python3 spy.py $!; kill -9 $!").await?;
    ensure!(own.contains("environ allowed"), "{own}");
    sandbox.stop().await
}

#[tokio::test]
async fn programs_that_give_rights_to_others_give_none_to_a_job() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let planted = sandbox.app().join("id-as-root");
    std::fs::copy("/usr/bin/id", &planted)?;
    std::os::unix::fs::chown(&planted, Some(0), Some(0))?;
    std::fs::set_permissions(&planted, std::fs::Permissions::from_mode(0o6755))?;
    let printed = shell(client, "./id-as-root -u; ./id-as-root -g; ./id-as-root -ru").await?;
    ensure!(printed == "1000\n1000\n1000\n", "{printed:?}");
    for line in [
        "su -c id",
        "mount -t tmpfs none /mnt",
        "setpriv --reuid 0 id",
        "chroot / id",
        "/usr/bin/python3 -c 'import os; os.setgroups([0])'",
        "/usr/bin/python3 -c 'import os; os.setresuid(-1, 0, -1)'",
        "chown 0 $HOME",
        "cat /etc/shadow",
        "nsenter -t 1 -m id",
        "ip link set lo down",
        "hostname x",
        "kill -0 1",
    ] {
        let view = client.exec(json!({"shell": format!("exec </dev/null; {line}")})).await?;
        ensure!(matches!(view.exit, Some(Exit::Exited { code: 1.. })), "{line}: {view:?}");
    }
    sandbox.stop().await
}

/// Puts something hostile in the place of `sandbox.yaml`.
type Plant = fn(&std::path::Path) -> Result<()>;

const PLANTS: [(&str, &str, Plant); 10] = [
    ("a link to what only root may read", "follow a symbolic link", |path| {
        Ok(std::os::unix::fs::symlink("/etc/shadow", path)?)
    }),
    ("a link to itself", "follow a symbolic link", |path| Ok(std::os::unix::fs::symlink(path, path)?)),
    ("a link to endless zeros", "follow a symbolic link", |path| {
        Ok(std::os::unix::fs::symlink("/dev/zero", path)?)
    }),
    ("a FIFO without a writer", "not a regular file", |path| {
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::from_bits_truncate(0o666))?;
        Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?)
    }),
    ("a directory", "not a regular file", |path| Ok(std::fs::create_dir(path)?)),
    ("a socket", "not a regular file", |path| {
        drop(std::os::unix::net::UnixListener::bind(path)?);
        Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?)
    }),
    ("a sparse file of 1 GiB", "more than 262144 bytes", |path| {
        Ok(std::fs::File::create(path)?.set_len(1 << 30)?)
    }),
    ("a file of root's", "may not read", |path| {
        std::fs::write(path, "services: {secret: {command: x}}")?;
        Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?)
    }),
    ("bytes that are no text", "sandbox.yaml", |path| Ok(std::fs::write(path, [0xff, 0xfe, 0, 1])?)),
    ("a nest of brackets", "sandbox.yaml", |path| Ok(std::fs::write(path, "[".repeat(200_000))?)),
];

#[tokio::test]
async fn whatever_stands_in_the_place_of_the_manifest_pid_1_boots_and_says_what_is_wrong() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    for (what, complaint, plant) in PLANTS {
        sandbox.crash().await?;
        let path = sandbox.app().join("sandbox.yaml");
        plant(&path).context(what)?;
        sandbox = sandbox.boot_again().await.context(what)?;
        let status = sandbox.client().status().await?;
        let said = status.manifest_error.context(what)?;
        ensure!(said.contains(complaint) && !said.contains("root:"), "{what}: {said}");
        ensure!(status.services.is_empty() && shell(sandbox.client(), "echo on").await? == "on\n", "{what}");
        if path.is_dir() { std::fs::remove_dir(&path)? } else { std::fs::remove_file(&path)? }
    }
    let events = tests::events::events_so_far(sandbox.client()).await?;
    let rejected = events.iter().filter(|event| event.fact.kind() == "manifest.rejected").count();
    ensure!(rejected == PLANTS.len(), "{rejected} times rejected");
    sandbox.stop().await
}

#[tokio::test]
async fn a_workspace_whose_directories_are_links_leads_pid_1_nowhere() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    sandbox.crash().await?;
    // Into what root may enter and the user may not.
    let secret = sandbox.control_dir().join("secret");
    std::fs::create_dir_all(secret.join("app"))?;
    std::fs::write(secret.join("app/sandbox.yaml"), "services: {secret: {command: x}}")?;
    std::fs::remove_dir_all(sandbox.home().join("workspace"))?;
    std::os::unix::fs::symlink(&secret, sandbox.home().join("workspace"))?;
    let sandbox = sandbox.boot_again().await?;
    let status = sandbox.client().status().await?;
    let said = status.manifest_error.unwrap_or_default();
    ensure!(status.services.is_empty() && said.contains("may not read"), "{said} {:?}", status.services);
    // Without an app directory a job starts at home.
    ensure!(shell(sandbox.client(), "pwd").await? == format!("{}\n", sandbox.home().display()));
    sandbox.stop().await
}
