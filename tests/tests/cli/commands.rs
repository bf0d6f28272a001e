//! `slipway` as people and scripts use it, against a real hostd: what it prints where, how it exits, and that
//! it lives through a restart of hostd.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::process::Stdio;
use tests::host::Ran;
use tests::launch::{directory, program};
use tests::sandbox::PATIENCE;
use tests::{Hostd, Random};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Runs a command that must succeed and returns its output.
async fn prints(hostd: &Hostd, arguments: &[&str]) -> Result<String> {
    let ran = hostd.ran(arguments).await?;
    ensure!(ran.code == Some(0), "{arguments:?}: {ran:?}");
    Ok(ran.out)
}

async fn json_of(hostd: &Hostd, arguments: &[&str]) -> Result<Value> {
    Ok(serde_json::from_str(&prints(hostd, &[&["--json"], arguments].concat()).await?)?)
}

async fn create(hostd: &Hostd, flags: &[&str]) -> Result<String> {
    Ok(prints(hostd, &[&["create"], flags].concat()).await?.trim().to_owned())
}

/// A command that goes on, read line by line.
struct Going {
    child: Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl Going {
    fn start(mut command: Command) -> Result<Self> {
        let mut child = command.spawn()?;
        let lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        Ok(Self { child, lines })
    }

    async fn line(&mut self) -> Result<String> {
        let line = timeout(PATIENCE, self.lines.next_line()).await.context("prints nothing")??;
        line.context("its output ended")
    }

    async fn type_in(&mut self, text: &str) -> Result<()> {
        Ok(self.child.stdin.as_mut().context("its input")?.write_all(text.as_bytes()).await?)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.child.id().context("it has ended")?;
        Ok(kill(Pid::from_raw(i32::try_from(pid)?), signal)?)
    }

    /// Its exit code, what it printed after the lines that were read, and its errors.
    async fn end(mut self) -> Result<Ran> {
        drop(self.child.stdin.take());
        let (mut out, mut err) = (String::new(), String::new());
        while let Some(line) = timeout(PATIENCE, self.lines.next_line()).await.context("does not end")?? {
            out += &format!("{line}\n");
        }
        self.child.stderr.take().context("its errors")?.read_to_string(&mut err).await?;
        let status = timeout(PATIENCE, self.child.wait()).await.context("does not end")??;
        Ok(Ran { code: status.code(), out, err })
    }
}

#[tokio::test]
async fn a_sandbox_is_made_listed_shown_used_and_removed() -> Result<()> {
    let hostd = Hostd::start().await?;
    let id = create(&hostd, &["--name", "web", "--memory", "256m", "--meta", "for=test"]).await?;
    let other = create(&hostd, &[]).await?;
    ensure!(id.len() == 26 && id != other, "{id:?}");
    let listed = prints(&hostd, &["ls"]).await?;
    ensure!(listed.contains("web") && listed.lines().count() == 3, "{listed}");
    ensure!(prints(&hostd, &["ls", "-q"]).await? == format!("{other}\n{id}\n"));
    let view = json_of(&hostd, &["get", "web"]).await?;
    ensure!(view["id"] == id.as_str() && view["limits"]["memory_mb"] == 256, "{view}");
    ensure!(prints(&hostd, &["get", "web"]).await?.contains("running"));
    // By name, by id in any case, and by a beginning that is unique; not by one that is not.
    let unique = (1..=26).map(|n| &id[..n]).find(|start| !other.starts_with(start)).context("they differ")?;
    for named in ["web", &id, &id.to_ascii_uppercase(), unique] {
        ensure!(prints(&hostd, &["exec", named, "--", "echo", "hi"]).await? == "hi\n", "{named}");
    }
    let shared = &id[..unique.len() - 1];
    let ambiguous = hostd.ran(&["get", if shared.is_empty() { "0" } else { shared }]).await?;
    ensure!(
        ambiguous.code == Some(1) && ambiguous.err.contains("give a longer prefix of the id"),
        "{ambiguous:?}"
    );
    prints(&hostd, &["rm", "web", &other]).await?;
    ensure!(prints(&hostd, &["ls", "-q"]).await?.is_empty());
    ensure!(prints(&hostd, &["ls", "-q", "--all"]).await?.lines().count() == 2);
    hostd.holds_only(&Default::default(), &Default::default())
}

#[tokio::test]
async fn exec_exits_as_the_command_did() -> Result<()> {
    let hostd = Hostd::start().await?;
    create(&hostd, &["--name", "box", "--memory", "64m"]).await?;
    let hog = "x = []\nwhile True: x.append(bytearray(b'x' * (1 << 20)))";
    let table: [(&[&str], i32, &str); 9] = [
        (&["box", "--", "true"], 0, ""),
        (&["box", "--", "sh", "-c", "exit 3"], 3, ""),
        (&["box", "--", "sh", "-c", "exit 255"], 255, ""),
        (&["box", "--", "sh", "-c", "kill -TERM $$"], 143, ""),
        (&["box", "--", "no-such-program"], 127, "no-such-program"),
        (&["box", "--", "/etc"], 126, "/etc"),
        (&["--timeout", "1s", "box", "--", "sleep", "100000"], 124, "--timeout"),
        (&["box", "--", "python3", "-c", hog], 137, "memory"),
        (&["unknown", "--", "true"], 125, "next:"),
    ];
    for (arguments, code, told) in table {
        let ran = hostd.ran(&[&["exec"], arguments].concat()).await?;
        ensure!(ran.code == Some(code) && ran.err.contains(told), "{arguments:?}: {ran:?}");
        ensure!(!told.is_empty() || ran.err.is_empty(), "{arguments:?}: {ran:?}");
    }
    let ran =
        hostd.ran(&["exec", "-e", "A=b", "-w", "/tmp", "box", "--", "sh", "-c", "echo $A; pwd >&2"]).await?;
    ensure!((ran.out.as_str(), ran.err.as_str()) == ("b\n", "/tmp\n"), "{ran:?}");
    let lines = prints(&hostd, &["--json", "exec", "box", "--", "echo", "hi"]).await?;
    let lines = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let (first, last) = (lines.first().context("lines")?, lines.last().context("lines")?);
    ensure!(first["data"] == "hi\n" && last["exit"]["code"] == 0, "{lines:?}");
    Ok(())
}

#[tokio::test]
async fn piped_input_arrives_byte_for_byte() -> Result<()> {
    let hostd = Hostd::start().await?;
    create(&hostd, &["--name", "box"]).await?;
    let bytes = Random::seeded().bytes(1 << 20);
    let mut child = hostd.slipway(&["exec", "box", "--", "cat"])?.stdin(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("its input")?;
    let feed = async {
        stdin.write_all(&bytes).await?;
        drop(stdin);
        anyhow::Ok(())
    };
    let (fed, output) = timeout(PATIENCE, async { tokio::join!(feed, child.wait_with_output()) }).await?;
    fed?;
    let output = output?;
    ensure!(output.status.success() && output.stdout == bytes, "{} bytes came back", output.stdout.len());
    Ok(())
}

#[tokio::test]
async fn every_verb_brings_the_sandbox_where_it_says() -> Result<()> {
    let hostd = Hostd::start().await?;
    create(&hostd, &["--name", "box"]).await?;
    prints(&hostd, &["exec", "box", "--", "sh", "-c", "echo kept > ~/kept"]).await?;
    for (verb, status) in [
        ("pause", "paused"),
        ("resume", "running"),
        ("stop", "stopped"),
        ("start", "running"),
        ("recreate", "running"),
    ] {
        prints(&hostd, &[verb, "box"]).await?;
        ensure!(json_of(&hostd, &["get", "box"]).await?["status"] == status, "{verb}");
    }
    ensure!(prints(&hostd, &["exec", "box", "--", "sh", "-c", "cat ~/kept"]).await? == "kept\n");
    ensure!(prints(&hostd, &["attempts", "box"]).await?.lines().count() == 4);
    let refused = hostd.ran(&["start", "box", "unknown"]).await?;
    ensure!(refused.code == Some(1) && refused.err.contains("unknown"), "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn services_are_listed_followed_and_restarted() -> Result<()> {
    let hostd = Hostd::start().await?;
    let service = "name=ticker,command=echo up $WORD; exec sleep 100000,env.WORD=hello";
    create(&hostd, &["--name", "box", "--service", service]).await?;
    let mut log = Going::start(hostd.slipway(&["logs", "-f", "box", "ticker"])?)?;
    ensure!(log.line().await? == "up hello");
    ensure!(prints(&hostd, &["services", "box"]).await?.contains("ticker"));
    prints(&hostd, &["service", "box", "ticker", "restart"]).await?;
    ensure!(log.line().await? == "up hello");
    ensure!(prints(&hostd, &["logs", "box", "ticker"]).await? == "up hello\nup hello\n");
    Ok(())
}

#[tokio::test]
async fn followed_events_go_on_over_a_restart_of_hostd_without_gap_or_repetition() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    create(&hostd, &["--name", "before"]).await?;
    let mut events = Going::start(hostd.slipway(&["--json", "events", "--follow"])?)?;
    let mut seen = 0;
    let mut until = async |kind: &str, name: Option<&str>| {
        loop {
            let event: Value = serde_json::from_str(&events.line().await?)?;
            seen += 1;
            ensure!(event["seq"] == seen, "{event} where {seen} was expected");
            if event["kind"] == kind && name.is_none_or(|name| event["sandbox"] == name) {
                return Ok(());
            }
        }
    };
    until("sandbox.running", None).await?;
    hostd.crash().await?;
    let after = create(&hostd, &["--name", "after"]).await?;
    until("sandbox.running", Some(&after)).await?;
    ensure!(hostd.terminate().await?.success());
    hostd.crash().await?;
    prints(&hostd, &["rm", "after"]).await?;
    until("sandbox.destroyed", Some(&after)).await
}

#[tokio::test]
async fn an_exec_lives_through_a_restart_of_hostd_with_all_its_output_and_input() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    create(&hostd, &["--name", "box"]).await?;
    let line = "while read x; do echo out $x; echo err $x >&2; done; exit 7";
    let mut command = hostd.slipway(&["exec", "box", "--", "sh", "-c", line])?;
    command.stdin(Stdio::piped());
    let mut exec = Going::start(command)?;
    for round in 0..3 {
        exec.type_in(&format!("{round}\n")).await?;
        ensure!(exec.line().await? == format!("out {round}"));
        match round {
            0 => hostd.crash().await?,
            1 => {
                ensure!(hostd.terminate().await?.success());
                hostd.crash().await?;
            }
            _ => {}
        }
    }
    let ran = exec.end().await?;
    ensure!(ran.code == Some(7) && ran.out.is_empty(), "{ran:?}");
    let err: Vec<&str> = ran.err.lines().filter(|line| line.starts_with("err")).collect();
    ensure!(err == ["err 0", "err 1", "err 2"], "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn a_detached_exec_is_attached_to_later_and_runs_once() -> Result<()> {
    let hostd = Hostd::start().await?;
    create(&hostd, &["--name", "box"]).await?;
    let line = "echo ran >> ~/ran; echo out; exit 5";
    let id = prints(&hostd, &["exec", "-d", "--id", "job-1", "box", "--", "sh", "-c", line]).await?;
    ensure!(id == "job-1\n");
    for arguments in
        [&["attach", "box", "job-1"][..], &["exec", "-n", "--id", "job-1", "box", "--", "sh", "-c", line]]
    {
        let ran = hostd.ran(arguments).await?;
        ensure!(ran.code == Some(5) && ran.out == "out\n", "{arguments:?}: {ran:?}");
    }
    ensure!(prints(&hostd, &["exec", "box", "--", "sh", "-c", "cat ~/ran"]).await? == "ran\n");
    ensure!(prints(&hostd, &["ps", "box"]).await?.contains("job-1"));
    Ok(())
}

#[tokio::test]
async fn one_ctrl_c_is_the_commands_and_two_end_it() -> Result<()> {
    let hostd = Hostd::start().await?;
    create(&hostd, &["--name", "box"]).await?;
    // The command, the number of Ctrl-C presses, and the exit code.
    let table = [
        ("trap 'echo caught; exit 42' INT; echo up; while :; do sleep 0.05; done", 1, 42),
        ("echo up; exec sleep 100000", 1, 130),
        ("trap 'echo caught' INT; echo up; while :; do sleep 0.05; done", 2, 130),
    ];
    for (line, presses, code) in table {
        let mut exec = Going::start(hostd.slipway(&["exec", "box", "--", "bash", "-c", line])?)?;
        ensure!(exec.line().await? == "up");
        exec.signal(Signal::SIGINT)?;
        if presses == 2 {
            ensure!(exec.line().await? == "caught");
            exec.signal(Signal::SIGINT)?;
        }
        let ran = exec.end().await?;
        ensure!(ran.code == Some(code), "{line}: {ran:?}");
    }
    let running = json_of(&hostd, &["ps", "box"]).await?.to_string();
    ensure!(!running.contains("\"running\""), "{running}");
    Ok(())
}

#[tokio::test]
async fn a_reader_that_leaves_ends_the_command() -> Result<()> {
    let hostd = Hostd::start().await?;
    let id = create(&hostd, &["--name", "box"]).await?;
    let mut exec = Going::start(hostd.slipway(&["exec", "--id", "chatty", "box", "--", "yes"])?)?;
    ensure!(exec.line().await? == "y");
    let Going { mut child, lines } = exec;
    drop(lines);
    let status = timeout(PATIENCE, child.wait()).await.context("it goes on")??;
    ensure!(status.code() == Some(141), "{status}");
    let ended: Value =
        hostd.local().get(&format!("/v1/sandboxes/{id}/execs/chatty?wait=30s")).await?.expect(200)?;
    ensure!(ended["exit"]["kind"] == "cancelled", "{ended}");
    Ok(())
}

#[tokio::test]
async fn a_token_opens_the_api_by_address_for_its_own_sandboxes() -> Result<()> {
    let hostd = Hostd::start().await?;
    create(&hostd, &["--name", "not-anns"]).await?;
    let token = prints(&hostd, &["token", "create", "--principal", "ann", "--tenant", "acme"])
        .await?
        .trim()
        .to_owned();
    let with = |token: Option<&str>, arguments: &[&str]| {
        let mut command = hostd.slipway(arguments)?;
        command.env("SLIPWAY_URL", hostd.url());
        token.map(|token| command.env("SLIPWAY_TOKEN", token));
        anyhow::Ok(command)
    };
    ensure!(Ran::of(with(Some(&token), &["ls", "-q"])?.spawn()?).await?.out.is_empty());
    let made = Ran::of(with(Some(&token), &["create", "--name", "anns"])?.spawn()?).await?;
    ensure!(made.code == Some(0), "{made:?}");
    let ran = Ran::of(with(Some(&token), &["exec", "anns", "--", "echo", "hi"])?.spawn()?).await?;
    ensure!(ran.out == "hi\n", "{ran:?}");
    let listed = prints(&hostd, &["token", "ls"]).await?;
    ensure!(listed.contains("ann") && !listed.contains(&token), "{listed}");
    let tokens = json_of(&hostd, &["token", "ls"]).await?;
    let items = tokens.as_array().or(tokens["items"].as_array()).context("a list")?;
    let id = items
        .iter()
        .find(|one| one["principal"] == "ann")
        .and_then(|one| one["id"].as_str())
        .context("ann's")?;
    prints(&hostd, &["token", "revoke", id]).await?;
    for token in [Some(token.as_str()), Some("nonsense"), None] {
        let refused = Ran::of(with(token, &["ls"])?.spawn()?).await?;
        ensure!(refused.code == Some(1) && refused.err.contains("next:"), "{refused:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_image_is_imported_used_and_removed() -> Result<()> {
    let hostd = Hostd::start().await?;
    let dir = directory()?;
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("bin"))?;
    std::fs::copy("/bin/busybox", root.join("bin/busybox"))?;
    for applet in ["sh", "echo"] {
        symlink("busybox", root.join("bin").join(applet))?;
    }
    let path = root.to_string_lossy().into_owned();
    prints(&hostd, &["image", "import", "tiny", &path]).await?;
    ensure!(prints(&hostd, &["image", "ls"]).await?.contains("tiny"));
    create(&hostd, &["--name", "box", "--image", "tiny"]).await?;
    ensure!(prints(&hostd, &["exec", "box", "--", "/bin/echo", "tiny"]).await? == "tiny\n");
    prints(&hostd, &["rm", "box"]).await?;
    prints(&hostd, &["image", "rm", "tiny"]).await?;
    let refused = hostd.ran(&["create", "--image", "tiny"]).await?;
    ensure!(refused.code == Some(1) && refused.err.contains("tiny"), "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_is_told_with_what_to_do_next() -> Result<()> {
    let hostd = Hostd::start().await?;
    let table: [(&[&str], i32, &str); 6] = [
        (&["get", "unknown"], 1, "slipway ls"),
        (&["create", "--network", "open"], 1, "none"),
        (&["create", "--memory", "1"], 1, "limits.memory_mb"),
        (&["create", "--memory", "plenty"], 2, "--memory"),
        (&["frobnicate"], 2, "frobnicate"),
        (&["exec", "unknown"], 2, "COMMAND"),
    ];
    for (arguments, code, told) in table {
        let ran = hostd.ran(arguments).await?;
        ensure!(
            ran.code == Some(code) && ran.err.contains(told) && ran.out.is_empty(),
            "{arguments:?}: {ran:?}"
        );
    }
    let ran = hostd.ran(&["--json", "get", "00000000000000000000000001"]).await?;
    let error: Value = serde_json::from_str(&ran.err).with_context(|| format!("{ran:?}"))?;
    ensure!(ran.code == Some(1) && error["error"]["code"] == "not_found", "{ran:?}");
    let mut alone = hostd.slipway(&["ls"])?;
    alone.env("SLIPWAY_DATA_DIR", "/nonexistent");
    let ran = Ran::of(alone.spawn()?).await?;
    ensure!(ran.code == Some(1) && ran.err.contains("slipway up"), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn doctor_completions_and_version_work() -> Result<()> {
    let hostd = Hostd::start().await?;
    let doctor = json_of(&hostd, &["doctor"]).await?;
    let checks = doctor["checks"].as_array().context("checks")?;
    ensure!(
        checks.iter().any(|check| check["name"] == "hostd" && check.to_string().contains("answers")),
        "{doctor}"
    );
    ensure!(prints(&hostd, &["doctor"]).await?.contains("nothing that is needed is missing"));
    for shell in ["bash", "zsh", "fish"] {
        ensure!(prints(&hostd, &["completions", shell]).await?.contains("slipway"), "{shell}");
    }
    ensure!(prints(&hostd, &["version"]).await?.contains("hostd"));
    let top = prints(&hostd, &["top"]).await?;
    ensure!(!top.is_empty(), "once, where it is no terminal");
    ensure!(json!(null) != json_of(&hostd, &["ls"]).await?);
    Ok(())
}

#[tokio::test]
async fn bash_completes_names_of_sandboxes_services_and_tasks() -> Result<()> {
    let hostd = Hostd::start().await?;
    create(&hostd, &["web", "--service", "name=worker,command=exec sleep 100000"]).await?;
    let submit = ["task", "submit", "--id", "paint-it", "web", "paint it", "--", "true"];
    prints(&hostd, &submit).await?;
    let script = "source <(slipway completions bash); COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; \
        _clap_complete_slipway slipway \"${@: -1}\" \"\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let programs = program("slipway")?;
    let path = format!("{}:/usr/bin:/bin", programs.parent().context("its directory")?.display());
    for (words, expected) in [
        (&["slipway", "delete", "w"][..], "web\n"),
        (&["slipway", "logs", "web", "w"], "worker\n"),
        (&["slipway", "task", "show", "web", "p"], "paint-it\n"),
        (&["slipway", "task", "get", "unknown", "p"], "\n"),
    ] {
        let mut bash = Command::new("bash");
        bash.args(["-c", script, "bash"]).args(words).env("PATH", &path);
        hostd.address(&mut bash).kill_on_drop(true);
        bash.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ran = Ran::of(bash.spawn()?).await?;
        ensure!(ran.out == expected && ran.err.is_empty(), "{words:?}: {ran:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_missing_is_named_with_the_list_it_would_be_in() -> Result<()> {
    let hostd = Hostd::start().await?;
    let id = create(&hostd, &["web"]).await?;
    let table: [(&[&str], &str, &str); 7] = [
        (&["logs", "web", "nope"], "no service `nope` in sandbox `ID`", "slipway services ID"),
        (&["service", "web", "nope", "restart"], "no service `nope` in sandbox `ID`", "slipway services ID"),
        (&["task", "get", "web", "nope"], "no task `nope` in sandbox `ID`", "slipway task ls ID"),
        (&["task", "follow", "web", "nope"], "no task `nope` in sandbox `ID`", "slipway task ls ID"),
        (&["attach", "web", "nope"], "no exec `nope` in sandbox `ID`", "slipway ps ID"),
        (
            &["token", "revoke", "nope"],
            "no token `nope` (or it belongs to another tenant)",
            "slipway token ls",
        ),
        (&["get", "00000000000000000000000001"], "no sandbox `00000000000000000000000001`", "slipway ls"),
    ];
    for (arguments, told, next) in table {
        let ran = hostd.ran(arguments).await?;
        let said = ran.err.replace(&id, "ID");
        ensure!(ran.code != Some(0) && said.contains(told), "{arguments:?}: {ran:?}");
        ensure!(said.contains(&format!("next: `{next}`")), "{arguments:?}: {ran:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_listens_in_a_sandbox_is_listed_and_shown() -> Result<()> {
    let hostd = Hostd::start().await?;
    create(&hostd, &["web", "--port", "3000"]).await?;
    let asleep = create(&hostd, &["asleep"]).await?;
    prints(&hostd, &["stop", "asleep"]).await?;
    // Listens before the command ends, and goes on afterwards.
    let listen = "import os, socket, time\nkept = socket.create_server(('127.0.0.1', 4321))\n\
        if os.fork(): os._exit(0)\nos.closerange(0, 3)\ntime.sleep(100000)";
    prints(&hostd, &["exec", "web", "--", "python3", "-c", listen]).await?;
    let shown = prints(&hostd, &["get", "web"]).await?;
    let line = shown.lines().find(|line| line.starts_with("listening")).with_context(|| shown.clone())?;
    ensure!(line.contains("4321 http://") && line.contains("by python3"), "{shown}");
    let listed = prints(&hostd, &["ls"]).await?;
    let row = listed.lines().find(|line| line.contains("web")).context("its row")?;
    let cells: Vec<&str> = row.split_whitespace().collect();
    ensure!(cells[4..6] == ["3000", "4321"], "{listed}");
    let all = json_of(&hostd, &["ls"]).await?;
    let stopped =
        all["items"].as_array().and_then(|items| items.iter().find(|item| item["id"] == asleep.as_str()));
    ensure!(stopped.context("its row")?.get("listening").is_none(), "{all}");
    Ok(())
}
