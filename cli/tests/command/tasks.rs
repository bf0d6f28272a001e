//! Tests of `run` and `task` against a fake hostd that drops connections, dies and restarts.

use super::{
    CommandOutput,
    fake::{FakeHostd, MADE},
    signal, slipway,
};
use nix::{pty::openpty, sys::signal::Signal};
use std::{fs::File, io::Read as _, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Child,
    sync::oneshot,
    time::timeout,
};

/// Only bounds hanging.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

async fn ended(fake: &FakeHostd, arguments: &[&str]) -> CommandOutput {
    let output = slipway(&fake.data_dir(), "").args(arguments).output().await.expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    CommandOutput { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code() }
}

fn started(fake: &FakeHostd, arguments: &[&str]) -> Child {
    let mut command = slipway(&fake.data_dir(), "");
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it runs")
}

async fn code_and_errors(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().await.expect("it ends");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn run_makes_a_sandbox_shows_the_task_and_leaves_nothing() {
    let fake = FakeHostd::start();
    let ended = ended(&fake, &["run", "do it", "--timeout", "2m", "-e", "A=b", "--", "print", "2"]).await;
    insta::assert_snapshot!(ended.stdout, @r"
    · agent
    line 0
    line 1
    succeeded after 2.0s (agent 2.0s)
      files       1 added +3
        A new.rs +3
      checkpoint  none: there is no git
    ");
    assert_eq!((ended.stderr.as_str(), ended.code), ("", Some(0)));
    let acts: Vec<String> = fake.tasks.acts().into_iter().filter(|act| act != "events").collect();
    assert_eq!(acts, ["make", "submit", &format!("destroy {MADE}")]);
    let mut body = fake.tasks.body();
    body["id"] = "".into();
    insta::assert_snapshot!(body.to_string(), @r#"
    {"command":["print","2"],"env":{"A":"b"},"id":"","keep_processes":false,"prompt":"do it","timeout_s":120.0}
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_sandbox_is_named_with_its_previews() {
    let fake = FakeHostd::start();
    let ended = ended(&fake, &["run", "--keep", "do it", "--", "exit", "7"]).await;
    assert!(ended.stdout.ends_with("  port 3000   http://preview\n"), "{}", ended.stdout);
    assert!(ended.stderr.contains(&format!("`slipway run --sandbox {MADE} …`")), "{}", ended.stderr);
    assert_eq!(ended.code, Some(7));
    assert!(!fake.tasks.acts().iter().any(|act| act.starts_with("destroy")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_sandbox_is_left_alone() {
    let fake = FakeHostd::start();
    let ended = ended(&fake, &["run", "--sandbox", "web", "do it", "--", "print", "1"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let acts: Vec<String> = fake.tasks.acts().into_iter().filter(|act| act != "events").collect();
    assert_eq!(acts, ["submit"]);
    let ended = super::run(&fake.data_dir(), "run --sandbox web --image x p").await;
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_comes_once_wherever_the_connection_is_cut() {
    let fake = FakeHostd::start();
    let id = ended(&fake, &["task", "submit", "web", "p", "--", "print", "400"]).await.stdout;
    let followed = ended(&fake, &["--json", "task", "follow", "web", id.trim()]).await;
    // Exactly as it was sent, and nothing else.
    assert_eq!(followed.stdout.lines().collect::<Vec<_>>(), fake.tasks.events_json());
    assert_eq!((followed.stderr.as_str(), followed.code), ("", Some(0)));
    let tries = fake.tasks.count("events");
    assert!(tries >= 402, "it was cut {tries} times only");
    // From the middle, and after the end.
    let rest = ended(&fake, &["--json", "task", "follow", "web", id.trim(), "--since", "1000"]).await;
    let told = fake.tasks.events_json();
    let expected: Vec<&String> = told.iter().skip(300).collect();
    assert_eq!(rest.stdout.lines().collect::<Vec<_>>(), expected);
    let nothing = ended(&fake, &["task", "follow", "web", id.trim(), "--since", "100000"]).await;
    assert_eq!((nothing.stdout.as_str(), nothing.code), ("", Some(0)), "{}", nothing.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_end_has_its_exit_code() {
    let fake = FakeHostd::start();
    let table = [
        ("exit", "3", 3),
        ("exit", "0", 1),
        ("timed_out", "", 124),
        ("idle_timed_out", "", 124),
        ("build_failed", "", 1),
        ("lost", "", 125),
        ("internal", "", 125),
    ];
    for (program, argument, code) in table {
        let ended = ended(&fake, &["run", "p", "--", program, argument]).await;
        assert_eq!(ended.code, Some(code), "{program}: {}", ended.stderr);
        assert!(ended.stdout.contains("\nfailed after 2.0s (agent 2.0s): "), "{}", ended.stdout);
    }
    assert_eq!(fake.tasks.count(&format!("destroy {MADE}")), table.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_cancels_and_waits_for_the_end() {
    let fake = FakeHostd::start();
    let child = started(&fake, &["run", "p", "--", "hang"]);
    fake.tasks.wait_for_act("events", 1).await;
    signal(&child, Signal::SIGINT);
    let (code, stderr) = code_and_errors(child).await;
    assert_eq!(code, Some(130), "{stderr}");
    assert!(stderr.contains("cancelling the task; Ctrl-C again leaves"), "{stderr}");
    assert_eq!((fake.tasks.count("cancel"), fake.tasks.count(&format!("destroy {MADE}"))), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_twice_leaves_and_says_how_to_come_back() {
    let fake = FakeHostd::start();
    let child = started(&fake, &["run", "p", "--", "stubborn"]);
    fake.tasks.wait_for_act("events", 1).await;
    signal(&child, Signal::SIGINT);
    fake.tasks.wait_for_act("cancel", 1).await;
    signal(&child, Signal::SIGINT);
    let (code, stderr) = code_and_errors(child).await;
    assert_eq!(code, Some(130), "{stderr}");
    assert!(stderr.contains(&format!("`slipway task follow {MADE} ")), "{stderr}");
    assert!(stderr.contains(&format!("`slipway rm {MADE}`")), "{stderr}");
    assert_eq!(fake.tasks.count(&format!("destroy {MADE}")), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_leaves_with_the_first_ctrl_c_and_the_task_goes_on() {
    let fake = FakeHostd::start();
    let child = started(&fake, &["task", "submit", "-f", "web", "p", "--", "hang"]);
    fake.tasks.wait_for_act("events", 1).await;
    signal(&child, Signal::SIGINT);
    let (code, stderr) = code_and_errors(child).await;
    assert_eq!((code, fake.tasks.count("cancel")), (Some(130), 0), "{stderr}");
    assert!(stderr.contains("follow the task again with `slipway task follow "), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_followed_through_the_death_of_hostd() {
    let mut fake = FakeHostd::start();
    let mut child = started(&fake, &["run", "p", "--", "hang"]);
    fake.tasks.wait_for_act("events", 2).await;
    fake.stop().await;
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let told = errors.next_line().await.expect("text").expect("a line");
    assert!(told.starts_with("slipway: connection lost, trying again"), "{told}");
    fake.serve();
    let before = fake.tasks.count("events");
    fake.tasks.wait_for_act("events", before + 1).await;
    signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().await.expect("it ends").code(), Some(130));
    // Once is enough.
    let mut rest = String::new();
    while let Some(line) = errors.next_line().await.expect("text") {
        rest.push_str(&line);
    }
    assert!(!rest.contains("connection lost"), "{rest}");
    assert_eq!((fake.tasks.count("submit"), fake.tasks.count(&format!("destroy {MADE}"))), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_leaves_ends_the_task() {
    let fake = FakeHostd::start();
    let mut child = started(&fake, &["run", "p", "--", "print", "40"]);
    drop(child.stdout.take());
    let (code, stderr) = code_and_errors(child).await;
    assert_eq!((code, stderr.as_str()), (Some(141), ""));
    assert_eq!((fake.tasks.count("cancel"), fake.tasks.count(&format!("destroy {MADE}"))), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prompt_comes_from_a_pipe() {
    let fake = FakeHostd::start();
    for arguments in [&["run", "-", "--", "print", "1"][..], &["run", "--", "print", "1"]] {
        let mut child =
            slipway(&fake.data_dir(), "").args(arguments).stdin(Stdio::piped()).spawn().expect("it runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all("fix\nit\n".as_bytes()).await.expect("it reads");
        drop(stdin);
        assert_eq!(child.wait().await.expect("it ends").code(), Some(0));
        assert_eq!(fake.tasks.body()["prompt"], "fix\nit");
    }
    let nothing = ended(&fake, &["run"]).await;
    assert_eq!(nothing.code, Some(125));
    assert!(nothing.stderr.contains("there is no prompt"), "{}", nothing.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_before_the_task_leaves_nothing() {
    let fake = FakeHostd::start();
    let refused = ended(&fake, &["run", "--agent", "unknown", "p"]).await;
    assert_eq!(refused.code, Some(125));
    assert!(refused.stderr.contains("there is no agent unknown"), "{}", refused.stderr);
    assert_eq!(fake.tasks.acts(), ["make", "submit", &format!("destroy {MADE}")]);
    let failed = ended(&fake, &["run", "--image", "nope", "p", "--", "print", "1"]).await;
    assert_eq!(failed.code, Some(125));
    insta::assert_snapshot!(failed.stderr, @r"
    slipway: the sandbox 01kb9xyzabcdefghjkmnpqrstv failed to start
      problem: image_missing: there is no image nope
      next: `slipway attempts 01kb9xyzabcdefghjkmnpqrstv` shows why
    ");
    assert!(fake.tasks.acts().contains(&format!("destroy {}", super::API)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_final_is_not_tried_again() {
    let fake = FakeHostd::start();
    let ended = ended(&fake, &["task", "follow", "web", "nope"]).await;
    assert_eq!(ended.code, Some(125));
    assert!(ended.stderr.starts_with("slipway: there is no such task\n"), "{}", ended.stderr);
    let directory = tempfile::tempdir().expect("a directory");
    for (line, code) in [
        (format!("task follow {MADE} t"), 125),
        (format!("task get {MADE} t"), 1),
        ("run p".to_owned(), 125),
        ("task follow web ../t".to_owned(), 125),
    ] {
        let ended = super::run(directory.path(), &line).await;
        assert_eq!(ended.code, Some(code), "{line}: {}", ended.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_submitted_listed_shown_and_cancelled() {
    let fake = FakeHostd::start();
    let submit = ["task", "submit", "--id", "mine", "web", "make it\nwork", "--", "hang"];
    for _ in 0..2 {
        assert_eq!(ended(&fake, &submit).await.stdout, "mine\n");
    }
    insta::assert_snapshot!(ended(&fake, &["task", "ls", "web"]).await.stdout, @r"
    ID    STATUS           AGENT    AGE  PROMPT
    mine  running (agent)  command  -    make it work
    ");
    let cancelled = ended(&fake, &["task", "cancel", "--wait", "web", "mine"]).await;
    assert_eq!((cancelled.stdout.as_str(), cancelled.code), ("mine cancelled\n", Some(0)));
    insta::assert_snapshot!(ended(&fake, &["task", "get", "web", "mine"]).await.stdout, @r"
    id          mine
    sandbox     01jb9xyzabcdefghjkmnpqrstv
    status      cancelled
    agent       command
    prompt      make it work
    created     - ago

    cancelled after 2.0s (agent 2.0s)
      files       1 added +3
        A new.rs +3
      checkpoint  none: there is no git
    ");
    let json = ended(&fake, &["--json", "task", "get", "web", "mine"]).await.stdout;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["result"]["status"], "cancelled");
}

/// Returns the output on a terminal.
async fn on_terminal(fake: &FakeHostd, arguments: &[&str], no_color: bool) -> String {
    on_terminal_watched(fake, arguments, no_color, |_| {}).await
}

/// Returns the output on a terminal, calling `look` with what was printed so far.
async fn on_terminal_watched(
    fake: &FakeHostd,
    arguments: &[&str],
    no_color: bool,
    mut look: impl FnMut(&[u8]) + Send + 'static,
) -> String {
    let pty = openpty(None, None).expect("a terminal");
    let mut command = slipway(&fake.data_dir(), "");
    command.args(arguments).env_remove("NO_COLOR");
    if no_color {
        command.env("NO_COLOR", "1");
    }
    let (out, err) = (pty.slave.try_clone().expect("a copy"), pty.slave);
    let mut child = command.stdout(out).stderr(err).spawn().expect("it runs");
    // The copies of the terminal in the command end with it.
    drop(command);
    let reader = tokio::task::spawn_blocking(move || {
        let (mut master, mut seen, mut buffer) = (File::from(pty.master), Vec::new(), [0; 4096]);
        // The end of a terminal is an error.
        while let Ok(count @ 1..) = master.read(&mut buffer) {
            seen.extend_from_slice(&buffer[..count]);
            look(&seen);
        }
        seen
    });
    child.wait().await.expect("it ends");
    String::from_utf8(reader.await.expect("it reads")).expect("text").replace("\r\n", "\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_cannot_control_the_terminal() {
    let fake = FakeHostd::start();
    let seen = on_terminal(&fake, &["run", "p", "--", "evil"], false).await;
    assert!(seen.contains("\nharmless\u{fffd}\n"), "{seen:?}");
    assert!(!seen.contains("\u{1b}[2J") && !seen.contains("\u{1b}]") && !seen.contains("owned"), "{seen:?}");
    assert!(seen.contains("\u{1b}[32msucceeded\u{1b}[0m"), "{seen:?}");
    let seen = on_terminal(&fake, &["run", "p", "--", "evil"], true).await;
    let plain = seen.replace("\r\u{1b}[K", "");
    assert!(plain.contains("succeeded after") && !plain.contains('\u{1b}'), "{plain:?}");
    // A file gets what the agent printed.
    let output =
        slipway(&fake.data_dir(), "").args(["run", "p", "--", "evil"]).output().await.expect("it runs");
    let raw = b"\n\x1b[2J\x1b]0;owned\x07harm\x1b[31mless\xff\n";
    assert!(output.stdout.windows(raw.len()).any(|bytes| bytes == raw), "{:?}", output.stdout);
}

/// Returns whether a nonzero number of seconds is shown.
fn shows_seconds(seen: &[u8]) -> bool {
    let text = String::from_utf8_lossy(seen);
    let seconds = text.split(" agent ").skip(1).filter_map(|rest| rest.split_once('s'));
    seconds.filter_map(|(number, _)| number.parse::<u32>().ok()).any(|number| number > 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_task_shows_that_time_goes_by() {
    let fake = FakeHostd::start();
    let (data_dir, (tell, told)) = (fake.data_dir(), oneshot::channel());
    let canceller = tokio::spawn(async move {
        let shown = timeout(HANG_TIMEOUT, told).await;
        (shown.is_ok(), super::run(&data_dir, "task cancel web quiet").await.code)
    });
    let mut tell = Some(tell);
    let look = move |seen: &[u8]| {
        if shows_seconds(seen)
            && let Some(tell) = tell.take()
        {
            let _ = tell.send(());
        }
    };
    let follow = ["task", "submit", "-f", "--id", "quiet", "web", "p", "--", "hang"];
    let seen = on_terminal_watched(&fake, &follow, false, look).await;
    assert!(seen.contains("cancelled"), "{seen:?}");
    assert_eq!(canceller.await.expect("it runs"), (true, Some(0)), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn help_and_completions_know_the_commands() {
    let fake = FakeHostd::start();
    for line in ["run --help", "task submit --help", "task follow --help"] {
        let help = super::run(&fake.data_dir(), line).await.stdout;
        assert!(help.contains("Examples:\n  slipway "), "{line}: {help}");
    }
    for (words, expected) in [
        (["slipway", "run", "--idle-"], "--idle-timeout"),
        (["slipway", "task", "f"], "follow"),
        (["slipway", "task", "su"], "submit"),
    ] {
        assert_eq!(super::completes(&fake.data_dir(), &words).await.stdout, expected, "{words:?}");
    }
    for (shell, said) in
        [("bash", "complete -o nospace"), ("zsh", "#compdef slipway"), ("fish", "complete --keep-order")]
    {
        let script = super::run(&fake.data_dir(), &format!("completions {shell}")).await.stdout;
        assert!(script.contains(said) && script.contains("SLIPWAY_COMPLETE"), "{shell}: {script}");
    }
}
