//! Tests of the real command against a fake hostd that drops connections, dies and restarts.

#[path = "command/capacity.rs"]
mod capacity;
#[path = "command/contexts.rs"]
mod contexts;
#[path = "command/copies.rs"]
mod copies;
mod fake;
#[path = "command/files.rs"]
mod files;
#[path = "command/forward.rs"]
mod forward;
#[path = "command/permissions.rs"]
mod permissions;
#[path = "command/sync.rs"]
mod sync;
#[path = "command/tasks.rs"]
mod tasks;
#[path = "command/tls.rs"]
mod tls;

use fake::{API, FakeHostd, WEB};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{ffi::OsStr, path::Path, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
};

fn slipway(data_dir: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slipway"));
    command.args(line.split_whitespace());
    // Settings of the machine have no effect.
    for name in [
        "SLIPWAY_URL",
        "SLIPWAY_TOKEN",
        "SLIPWAY_CA_FILE",
        "SLIPWAY_FINGERPRINT",
        "SLIPWAY_INSECURE",
        "SLIPWAY_CONTEXT",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    ] {
        command.env_remove(name);
    }
    command.env("XDG_CONFIG_HOME", data_dir.join("config"));
    command.env("SLIPWAY_DATA_DIR", data_dir).stdin(Stdio::null()).kill_on_drop(true);
    command
}

struct CommandOutput {
    stdout: String,
    stderr: String,
    code: Option<i32>,
}

fn with_env(mut command: Command, name: &str, value: impl AsRef<OsStr>) -> Command {
    command.env(name, value);
    command
}

async fn run(data_dir: &Path, line: &str) -> CommandOutput {
    ended(slipway(data_dir, line)).await
}

async fn ended(mut command: Command) -> CommandOutput {
    let output = command.output().await.expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    CommandOutput { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code() }
}

fn spawn(data_dir: &Path, line: &str) -> Child {
    slipway(data_dir, line)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs")
}

fn signal(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).expect("it runs");
    kill(Pid::from_raw(pid), signal).expect("it runs");
}

/// `line n` for the numbers of one stream.
fn lines(count: usize, parity: usize) -> String {
    (0..count).filter(|n| n % 2 == parity).map(|n| format!("line {n}\n")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn output_survives_every_cut_without_loss_or_repetition() {
    let fake = FakeHostd::start();
    let ended = run(&fake.data_dir(), "exec web -- print 40").await;
    assert_eq!(ended.stdout, lines(40, 0));
    assert_eq!(ended.stderr, lines(40, 1));
    assert_eq!(ended.code, Some(3));
    let tries = fake.execs.acts().iter().filter(|act| *act == "output").count();
    assert!(tries > 10, "it was cut {tries} times only");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exec_goes_on_when_hostd_dies_and_comes_back() {
    let mut fake = FakeHostd::start();
    let mut child = spawn(&fake.data_dir(), "exec web -n -- sleep");
    fake.execs.wait_for_act("output").await;
    fake.stop().await;
    fake.serve();
    // The second output request goes to the new hostd.
    let again = |acts: &[String]| acts.iter().filter(|act| *act == "output").count() > 1;
    while !again(&fake.execs.acts()) {
        tokio::task::yield_now().await;
    }
    signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().await.expect("it ends").code(), Some(130));
    assert_eq!(fake.execs.acts().iter().filter(|act| *act == "create").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_is_passed_on_to_its_end() {
    let fake = FakeHostd::start();
    let mut child = spawn(&fake.data_dir(), "exec web -- cat");
    let mut stdin = child.stdin.take().expect("a pipe");
    let text = "hi\n".repeat(100_000);
    stdin.write_all(text.as_bytes()).await.expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().await.expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout == text.as_bytes(), "{} bytes came back", output.stdout.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_interrupts_the_group() {
    let fake = FakeHostd::start();
    let mut child = spawn(&fake.data_dir(), "exec web -n -- sleep");
    fake.execs.wait_for_act("output").await;
    signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().await.expect("it ends").code(), Some(130));
    assert!(fake.execs.acts().contains(&"signal INT group".to_owned()), "{:?}", fake.execs.acts());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_leaves_ends_the_command() {
    let fake = FakeHostd::start();
    let mut child = spawn(&fake.data_dir(), "exec web -n -- print 40");
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).await.expect("text");
    assert_eq!(child.wait().await.expect("it ends").code(), Some(141));
    assert!(!stderr.contains("panic") && !stderr.contains("slipway:"), "{stderr}");
    assert!(fake.execs.acts().contains(&"cancel".to_owned()), "{:?}", fake.execs.acts());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_go_on_after_the_last_one_seen() {
    let fake = FakeHostd::start();
    let mut child = spawn(&fake.data_dir(), "events -f --json");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut seen = Vec::new();
    while seen.len() < 6 {
        let line = lines.next_line().await.expect("text").expect("more");
        let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        seen.push(event["seq"].as_u64().expect("a number"));
    }
    assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_for_people_or_for_programs() {
    let fake = FakeHostd::start();
    insta::assert_snapshot!(run(&fake.data_dir(), "ls").await.stdout, @r"
    ID                          NAME  STATUS   IMAGE  PORTS  LISTENING  AGE
    01jb9xyzabcdefghjkmnpqrstv  web   running  host   3000   -          -
    01kb9xyzabcdefghjkmnpqrstv  api   running  host   3000   -          -
    ");
    let json: serde_json::Value =
        serde_json::from_str(&run(&fake.data_dir(), "ls --json").await.stdout).expect("JSON");
    assert_eq!(json["items"][1]["id"], API);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_is_found_by_name_and_by_the_beginning_of_its_id() {
    let fake = FakeHostd::start();
    for name in ["web", "01j", "01JB9", WEB] {
        let ended = run(&fake.data_dir(), &format!("get {name}")).await;
        assert!(
            ended.stdout.starts_with(&format!("id          {WEB}\n")),
            "{name}: {}{}",
            ended.stdout,
            ended.stderr
        );
    }
    for (name, words) in [("01", "matches 2 sandboxes"), ("nope", "no sandbox with the id or name")] {
        let ended = run(&fake.data_dir(), &format!("get {name}")).await;
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
        assert_eq!(ended.code, Some(1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_says_why_and_what_next() {
    let fake = FakeHostd::start();
    let ended = run(&fake.data_dir(), "create --image nope").await;
    insta::assert_snapshot!(ended.stderr, @r"
    slipway: the sandbox did not come up
      problem: image_missing: there is no image nope
      next: `slipway attempts 01kb9xyzabcdefghjkmnpqrstv` shows why; `slipway recreate 01kb9xyzabcdefghjkmnpqrstv` tries again
    ");
    assert_eq!((ended.stdout.as_str(), ended.code), ("", Some(1)));
    let ended = run(&fake.data_dir(), "exec web -- oom").await;
    assert!(ended.stderr.contains("out of memory"), "{}", ended.stderr);
    assert_eq!(ended.code, Some(137));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_hostd_it_says_how_to_get_one() {
    let directory = tempfile::tempdir().expect("a directory");
    for (line, code) in [("ls", 1), ("exec web -- true", 125), ("frob", 2), ("exec", 2)] {
        let ended = run(directory.path(), line).await;
        assert_eq!(ended.code, Some(code), "{line}: {}", ended.stderr);
    }
    let ended = run(directory.path(), "ls").await;
    assert!(
        ended.stderr.contains("hostd is not running") && ended.stderr.contains("`slipway up`"),
        "{}",
        ended.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_command_it_says_where_to_begin() {
    let directory = tempfile::tempdir().expect("a directory");
    let ended = run(directory.path(), "").await;
    insta::assert_snapshot!(ended.stdout, @r#"
    Sandboxes for coding agents and the apps they build. Five commands to begin with:

      slipway up                       start hostd, and create a sandbox named `up`
      slipway run "PROMPT"             run a task with an agent in a new sandbox
      slipway exec up -- COMMAND       run a command in a sandbox; `slipway sh up` opens a shell
      slipway ls                       list sandboxes and their listening ports
      slipway rm up                    destroy a sandbox, with its files

    `slipway help` lists all commands, `slipway COMMAND --help` explains one; `slipway doctor` checks this machine.
    "#);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_words_for_a_command_are_understood_or_answered() {
    let fake = FakeHostd::start();
    for (line, code, said) in [
        ("show web", 0, "id          01jb9xyzabcdefghjkmnpqrstv"),
        ("delete web", 0, "destroyed"),
        ("destroy web", 0, "destroyed"),
        ("create made", 0, "01"),
        ("create made --name other", 2, "give one name"),
        ("cp -r src elsewhere", 2, "one side must be in a sandbox"),
        ("cp x web:/etc/passwd", 2, "give a path below /home/sandbox"),
        ("files cat web", 2, "must be SANDBOX:PATH"),
        ("crate web", 2, "'create'"),
        ("task shwo web t", 2, "'show'"),
        ("ssh unknown", 125, "no sandbox with the id or name"),
    ] {
        let ended = run(&fake.data_dir(), line).await;
        let all = format!("{}{}", ended.stdout, ended.stderr);
        assert!(ended.code == Some(code) && all.contains(said), "{line}: {:?} {all}", ended.code);
    }
}

/// Requests completions as the bash script does; the last word is completed.
async fn completes(data_dir: &Path, words: &[&str]) -> CommandOutput {
    completes_with(slipway(data_dir, "--"), words).await
}

async fn completes_with(mut command: Command, words: &[&str]) -> CommandOutput {
    command.args(words).env("SLIPWAY_COMPLETE", "bash").env("_CLAP_IFS", "\n");
    command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    ended(command).await
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_completed_from_what_hostd_knows() {
    let fake = FakeHostd::start();
    for (words, expected) in [
        (vec!["slipway", "get", ""], "web\napi"),
        (vec!["slipway", "delete", "a"], "api"),
        (vec!["slipway", "exec", "01k"], API),
        (vec!["slipway", "run", "--sandbox", "w"], "web"),
        (vec!["slipway", "logs", "web", ""], "dev\nworker"),
        (vec!["slipway", "service", "web", "w"], "worker"),
        (vec!["slipway", "limits", "w"], "web"),
        (vec!["slipway", "comp"], "completions"),
    ] {
        let ended = completes(&fake.data_dir(), &words).await;
        // Flags come after names, where nothing was typed.
        let names: Vec<&str> = ended.stdout.lines().filter(|line| !line.starts_with('-')).collect();
        assert_eq!((names.join("\n").as_str(), ended.stderr.as_str()), (expected, ""), "{words:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_are_silent_without_hostd_and_do_not_wait_for_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let ended = completes(directory.path(), &["slipway", "get", "w"]).await;
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str(), ended.code), ("", "", Some(0)));
    // A server that accepts connections and never responds.
    let _deaf =
        std::os::unix::net::UnixListener::bind(directory.path().join("hostd.sock")).expect("a socket");
    let asked = completes(directory.path(), &["slipway", "get", "w"]);
    let ended = tokio::time::timeout(std::time::Duration::from_secs(60), asked).await.expect("it gives up");
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str(), ended.code), ("", "", Some(0)));
}
