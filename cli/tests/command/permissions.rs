//! Tests of permissions, and of agents without a model.

use super::{
    fake::{FakeHostd, WEB},
    slipway,
};
use nix::pty::openpty;
use std::{
    fs::File,
    io::{Read as _, Write as _},
};

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_nothing_is_made_and_it_is_said_what_to_type() {
    let fake = FakeHostd::start();
    let output = slipway(&fake.data_dir(), "").args(["run", "do it"]).output().await.expect("it runs");
    let stderr = String::from_utf8(output.stderr).expect("text");
    insta::assert_snapshot!(stderr, @r"
    slipway: the agent opencode has no model: no provider is configured for it
      next: add one with `slipway model add anthropic`, then try again; or run a program instead of an agent with `-- PROGRAM`
    ");
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(fake.tasks.acts(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_are_what_the_task_is_asked_for_with() {
    let fake = FakeHostd::start();
    let flags = "task submit web --agent ready --model m --continue --ask --forbid execute --budget-tokens 9 --budget-cost 0.5 p";
    let output = slipway(&fake.data_dir(), flags).output().await.expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut body = fake.tasks.body();
    body["id"] = "".into();
    insta::assert_snapshot!(body.to_string(), @r#"{"agent":"ready","budget":{"cost_usd":0.5,"tokens":9},"continue":true,"id":"","keep_processes":false,"model":"m","permissions":{"default":"ask","rules":[{"then":"deny","tool":"execute"}]},"prompt":"p"}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_instructions_are_printed() {
    let fake = FakeHostd::start();
    let mut following = slipway(&fake.data_dir(), "");
    following.args(["task", "submit", "--follow", "--id", "t", "web", "p", "--", "ask"]);
    let following = tokio::spawn(async move { following.output().await.expect("it runs") });
    fake.tasks.wait_for_act("submit", 1).await;
    let output = slipway(&fake.data_dir(), "task allow web t p1").output().await.expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let seen = following.await.expect("it ends");
    let stdout = String::from_utf8(seen.stdout).expect("text");
    let asked = format!(
        "? allow: bash: make\n  answer with `slipway task allow {WEB} t p1`, or `slipway task deny …`\n"
    );
    assert!(stdout.contains(&asked), "{stdout}");
    assert!(stdout.contains("· allowed by you: bash: make\n"), "{stdout}");
    assert_eq!(fake.tasks.count(r#"permission {"decision":"allow"}"#), 1);
    assert_eq!(seen.status.code(), Some(0));
}

/// Returns the output of a terminal whose user types this at the first prompt.
async fn answered(fake: &FakeHostd, typed: &'static str) -> String {
    let pty = openpty(None, None).expect("a terminal");
    let mut command = slipway(&fake.data_dir(), "");
    command.args(["run", "p", "--", "ask"]).env("NO_COLOR", "1");
    let copy = || pty.slave.try_clone().expect("a copy");
    let mut child = command.stdin(copy()).stdout(copy()).stderr(copy()).spawn().expect("it runs");
    drop((command, pty.slave));
    let reader = tokio::task::spawn_blocking(move || {
        let (mut master, mut seen, mut buffer) = (File::from(pty.master), Vec::new(), [0; 4096]);
        let mut typed = Some(typed);
        // The end of a terminal is an error.
        while let Ok(count @ 1..) = master.read(&mut buffer) {
            seen.extend_from_slice(&buffer[..count]);
            if seen.windows(9).any(|text| text == b"[a]lways?")
                && let Some(typed) = typed.take()
            {
                master.write_all(typed.as_bytes()).expect("it is typed");
            }
        }
        seen
    });
    let status = child.wait().await.expect("it ends");
    assert_eq!(status.code(), Some(0));
    String::from_utf8(reader.await.expect("it reads")).expect("text").replace("\r\n", "\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_at_a_terminal_is_asked() {
    let table = [
        ("y\n", r#"permission {"decision":"allow"}"#),
        // An invalid answer is prompted again.
        ("what\nn\n", r#"permission {"decision":"deny"}"#),
        ("a\n", r#"permission {"decision":"allow","option":"ever"}"#),
    ];
    for (typed, act) in table {
        let fake = FakeHostd::start();
        let seen = answered(&fake, typed).await;
        assert!(seen.contains("? allow: bash: make\n"), "{seen}");
        assert!(!seen.contains("answer with"), "{seen}");
        assert_eq!(fake.tasks.count(act), 1, "{typed:?}: {:?}", fake.tasks.acts());
    }
}
