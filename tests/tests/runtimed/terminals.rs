//! Terminals: what programs expect of one, and viewers that come and go.

use anyhow::{Result, ensure};
use bytes::Bytes;
use hyper::Method;
use protocol::{Chunk, ErrorCode, Exit, Reason, Stream};
use serde_json::{Value, json};
use tests::output::Follower;
use tests::shell::{cancel_now, prints, started, stdout};
use tests::viewer::Viewer;
use tests::{Random, Sandbox, scaled, type_in};

const EXITED_0: Option<Exit> = Some(Exit::Exited { code: 0 });
const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const CTRL_Z: &str = "\u{1a}";

fn on_terminal(line: &str) -> Value {
    json!({"shell": line, "tty": {"cols": 100, "rows": 40}})
}

/// A shell at a terminal that says nothing of its own but `$ `.
fn interactive() -> Value {
    let argv = ["bash", "--noprofile", "--norc", "--noediting", "-i"];
    json!({"argv": argv, "tty": {"cols": 100, "rows": 40}, "env": {"PS1": "$ ", "HISTFILE": "/dev/null"}})
}

// ---- a terminal for programs ----

#[tokio::test]
async fn programs_find_the_terminal_they_expect() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    for (line, printed) in [
        ("test -t 0 && test -t 1 && test -t 2 && echo yes", "yes\r\n"),
        ("stty size", "40 100\r\n"),
        ("[[ $(tty) == /dev/pts/* ]] && test -O \"$(tty)\" && echo mine", "mine\r\n"),
        ("echo direct >/dev/tty", "direct\r\n"),
        ("echo out; echo err >&2", "out\r\nerr\r\n"),
        ("ps -o tty= -p $$ | grep -c pts/", "1\r\n"),
        ("ps -o sid= -p $$ | tr -d ' ' | grep -cx $$", "1\r\n"),
        ("script -qec 'tty >/dev/null && echo inner' /dev/null", "inner\r\n"),
        ("stty raw; printf 'a\\nb'", "a\nb"),
        ("echo $TERM", "xterm-256color\r\n"),
    ] {
        let view = sandbox.client().exec(on_terminal(line)).await?;
        ensure!(view.exit == EXITED_0 && view.hints.is_empty(), "{line}: {view:?}");
        ensure!(stdout(&view)? == printed, "{line}: {:?}", stdout(&view)?);
    }
    sandbox.stop().await
}

#[tokio::test]
async fn what_a_terminal_shows_is_one_stream() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let mut request = on_terminal("echo out; echo err >&2");
    request["id"] = json!("one");
    client.exec(request).await?;
    let mut follower = Follower::open(client, "/v1/execs/one/output").await?;
    let mut read = Vec::new();
    while let Some(chunk) = follower.next().await? {
        read.push(chunk);
    }
    let [output @ .., Chunk::End { cursor: 10, ended: true }] = &read[..] else { anyhow::bail!("{read:?}") };
    ensure!(output.iter().all(|c| matches!(c, Chunk::Output { stream: Stream::Pty, .. })), "{read:?}");
    sandbox.stop().await
}

/// Waits for SIGWINCH with the signal blocked, so that none is missed however quickly they follow each other.
const TELLS_ITS_SIZE: &str = "import signal, os
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
print(\"up\")
while signal.sigwait([signal.SIGWINCH]):
    print(*reversed(os.get_terminal_size()))";

#[tokio::test]
async fn a_new_size_is_seen_at_once() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    started(client, "grows", on_terminal(&format!("exec python3 -uc '{TELLS_ITS_SIZE}'")), "up").await?;
    for (cols, rows) in [(120, 50), (1, 1), (4096, 4096)] {
        let answer = client.post("/v1/execs/grows/resize", &json!({"cols": cols, "rows": rows})).await?;
        ensure!(answer.status == 204, "{}", answer.text());
        prints(client, "grows", &format!("{rows} {cols}\r\n")).await?;
    }
    for (body, field) in [
        (json!({"cols": 0, "rows": 24}), "cols"),
        (json!({"cols": 80, "rows": 4097}), "cols"),
        (json!({"cols": 80, "rows": 70000}), "rows"),
        (json!({"cols": 80}), "."),
    ] {
        let error = client.post("/v1/execs/grows/resize", &body).await?.error()?.error;
        ensure!(error.code == ErrorCode::InvalidRequest, "{body}: {error:?}");
        ensure!(field == "." || error.detail.field.as_deref() == Some(field), "{body}: {error:?}");
    }
    cancel_now(client, "grows").await?;
    let size = json!({"cols": 80, "rows": 24});
    ensure!(client.post("/v1/execs/grows/resize", &size).await?.code()? == ErrorCode::NotRunning);
    for stdin_open in [false, true] {
        let id = format!("pipe-{stdin_open}");
        started(client, &id, json!({"shell": "echo up; sleep 600", "stdin_open": stdin_open}), "up").await?;
        let answer = client.post(&format!("/v1/execs/{id}/resize"), &size).await?;
        ensure!(answer.code()? == ErrorCode::Conflict, "{}", answer.text());
        cancel_now(client, &id).await?;
    }
    sandbox.stop().await
}

#[tokio::test]
async fn keys_that_interrupt_and_end_do_so() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    started(client, "int", on_terminal("echo up; exec sleep 600"), "up").await?;
    type_in(client, "int", CTRL_C).await?;
    let view = client.ended("int").await?;
    ensure!(view.exit == Some(Exit::Signalled { signal: 2 }), "{view:?}");

    started(client, "eof", interactive(), "$ ").await?;
    type_in(client, "eof", "echo $((6*7))\n").await?;
    prints(client, "eof", "\n42\r\n").await?;
    type_in(client, "eof", "(exit 3)\n").await?;
    type_in(client, "eof", CTRL_D).await?;
    ensure!(client.ended("eof").await?.exit == Some(Exit::Exited { code: 3 }));

    started(client, "cat", on_terminal("echo up; cat"), "up").await?;
    let end = client.send(Method::POST, "/v1/execs/cat/stdin?eof=1", Bytes::from_static(b"line\n")).await?;
    ensure!(end.status == 204);
    ensure!(client.ended("cat").await?.exit == EXITED_0);
    sandbox.stop().await
}

#[tokio::test]
async fn input_in_the_request_is_typed_and_then_ends() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    for stdin in ["one\ntwo\n", "one\ntwo", ""] {
        let mut request = on_terminal("stty -echo; cat; echo end");
        request["stdin"] = json!(stdin);
        request["timeout_ms"] = json!(20_000);
        let view = sandbox.client().exec(request).await?;
        ensure!(view.exit == EXITED_0, "{stdin:?}: {view:?}");
        let shown = stdout(&view)?;
        ensure!(
            shown.ends_with("end\r\n") && shown.contains(stdin.lines().last().unwrap_or("")),
            "{shown:?}"
        );
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_shell_stops_jobs_and_takes_them_up_again() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    started(client, "jobs", interactive(), "$ ").await?;
    let mut viewer = Viewer::attach(client, "jobs", "").await?;
    viewer.sees("$ ").await?;
    viewer.types("cat\n").await?;
    viewer.sees("cat\r\n").await?;
    viewer.types("one\n").await?;
    viewer.sees("one\r\none\r\n").await?;
    viewer.types(CTRL_Z).await?;
    viewer.sees("Stopped").await?;
    viewer.sees("$ ").await?;
    viewer.types("fg\n").await?;
    viewer.sees("cat\r\n").await?;
    viewer.types("two\n").await?;
    viewer.sees("two\r\ntwo\r\n").await?;
    viewer.types(CTRL_C).await?;
    viewer.sees("$ ").await?;
    viewer.types("sleep 600 & jobs\n").await?;
    viewer.sees("Running").await?;
    viewer.types("kill %1; wait; exit 5\n").await?;
    viewer.rest().await?;
    ensure!(client.ended("jobs").await?.exit == Some(Exit::Exited { code: 5 }));
    sandbox.stop().await
}

#[tokio::test]
async fn tmux_runs_detached_and_attached() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let line = "tmux -S sock new -d -x 80 -y 24 'echo inside; read x; echo got $x; read x' && echo detached";
    let view = client.exec(json!({"id": "new", "shell": line})).await?;
    ensure!(view.exit == EXITED_0 && stdout(&view)? == "detached\n", "{view:?}");
    ensure!(!view.background.is_empty(), "its server lives on: {view:?}");
    let capture = "until tmux -S sock capture-pane -p | grep -m 1 inside; do :; done";
    ensure!(client.exec(json!({"shell": capture})).await?.exit == EXITED_0);
    started(client, "attached", on_terminal("tmux -S sock attach"), "inside").await?;
    type_in(client, "attached", "word\r").await?;
    prints(client, "attached", "got word").await?;
    type_in(client, "attached", "\r").await?;
    ensure!(client.ended("attached").await?.exit == EXITED_0);
    sandbox.stop().await
}

#[tokio::test]
async fn a_job_may_let_go_of_its_terminal_and_take_it_up_again() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    // For a moment no process has the terminal open; the reader of the other end must not take that for the
    // end.
    let line = "exec <&- >&- 2>&-; sleep 0.2; exec <>/dev/tty >&0 2>&1; echo back; stty size";
    let view = sandbox.client().exec(on_terminal(line)).await?;
    ensure!(view.exit == EXITED_0 && stdout(&view)? == "back\r\n40 100\r\n", "{view:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn a_long_paste_arrives_whole() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let pasted: Vec<u8> = Random::seeded().bytes(scaled(200_000, 20_000_000));
    std::fs::write(sandbox.app().join("pasted"), &pasted)?;
    let line = format!("stty raw -echo; echo up; head -c {} | cmp - pasted && echo same", pasted.len());
    started(client, "paste", on_terminal(&line), "up").await?;
    let answer = client.send(Method::POST, "/v1/execs/paste/stdin", Bytes::from(pasted)).await?;
    ensure!(answer.status == 204, "{}", answer.text());
    let view = client.ended("paste").await?;
    ensure!(stdout(&view)?.contains("same"), "{view:?}");
    sandbox.stop().await
}

// ---- viewers ----

#[tokio::test]
async fn a_viewer_sees_what_was_recent_and_all_that_follows() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    started(client, "shell", interactive(), "$ ").await?;
    type_in(client, "shell", "printf '%s\\n' early; stty -echo\n").await?;
    prints(client, "shell", "early\r\n$ ").await?;
    let typed = "$ printf '%s\\n' early; stty -echo\r\nearly\r\n$ ";
    // Each viewer types a mark of its own: what is replayed may hold those of earlier ones.
    for (query, mark, recent) in [
        ("", "first", typed),
        ("?replay=9", "second", "first\r\n$ "),
        ("?replay=2", "third", "$ "),
        ("?replay=0", "fourth", ""),
    ] {
        let mut viewer = Viewer::attach(client, "shell", query).await?;
        viewer.types(&format!("echo {mark}\n")).await?;
        let seen = viewer.sees(&format!("{mark}\r\n")).await?;
        ensure!(seen == format!("{recent}{mark}\r\n"), "{query}: {seen:?}");
        viewer.sees("$ ").await?;
    }
    cancel_now(client, "shell").await?;
    sandbox.stop().await
}

#[tokio::test]
async fn viewers_see_the_same_and_their_leaving_is_not_noticed() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    started(client, "shared", interactive(), "$ ").await?;
    let mut stays = Viewer::attach(client, "shared", "").await?;
    let mut leaves = Viewer::attach(client, "shared", "").await?;
    for viewer in [&mut stays, &mut leaves] {
        viewer.sees("$ ").await?;
    }
    leaves.types("trap 'echo hung up' HUP; echo $((20+1))\n").await?;
    let typed = "trap 'echo hung up' HUP; echo $((20+1))\r\n21\r\n$ ";
    ensure!(stays.sees("21\r\n$ ").await? == typed && leaves.sees("21\r\n$ ").await? == typed);
    drop(leaves);
    stays.types("echo $((20+2))\n").await?;
    ensure!(stays.sees("22\r\n$ ").await? == "echo $((20+2))\r\n22\r\n$ ");
    drop(stays);
    // Without a viewer it keeps running, and the next viewer sees the output from the meantime.
    type_in(client, "shared", "echo $((20+3))\n").await?;
    prints(client, "shared", "23\r\n").await?;
    let mut back = Viewer::attach(client, "shared", "").await?;
    let shown = back.sees("23\r\n").await?;
    ensure!(!shown.contains("hung up\r"), "{shown:?}");
    back.types("exit 6\n").await?;
    back.rest().await?;
    ensure!(client.ended("shared").await?.exit == Some(Exit::Exited { code: 6 }));
    sandbox.stop().await
}

#[tokio::test]
async fn a_viewer_who_does_not_read_slows_nobody_down() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let line = "read x; seq 1 300000; echo over";
    client.start(json!({"id": "much", "shell": line, "tty": {"cols": 80, "rows": 24}})).await?;
    let asleep = Viewer::attach(client, "much", "").await?;
    let mut awake = Viewer::attach(client, "much", "").await?;
    awake.types("\n").await?;
    awake.sees("over\r\n").await?;
    ensure!(client.ended("much").await?.exit == EXITED_0);
    ensure!(asleep.rest().await?.ends_with("300000\r\nover\r\n"));
    sandbox.stop().await
}

#[tokio::test]
async fn a_viewer_of_an_ended_terminal_sees_the_rest_and_is_let_go() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let mut request = on_terminal("echo first; echo last");
    request["id"] = json!("over");
    client.exec(request).await?;
    for (query, expected) in [("", "first\r\nlast\r\n"), ("?replay=6", "last\r\n"), ("?replay=0", "")] {
        let viewer = Viewer::attach(client, "over", query).await?;
        ensure!(viewer.rest().await? == expected, "{query}");
    }
    let reasons = client.status().await?.activity.reasons;
    ensure!(!reasons.iter().any(|reason| matches!(reason, Reason::Viewers { .. })), "{reasons:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn a_viewer_who_comes_back_goes_on_where_he_was() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let line = "stty -echo; printf 0123456789; read x; printf abc; read x; exit 0";
    started(client, "t", on_terminal(line), "9").await?;
    let mut viewer = Viewer::attach(client, "t", "?after=4").await?;
    ensure!(viewer.sees("9").await? == "456789" && viewer.position == Some(10), "{:?}", viewer.position);
    drop(viewer);
    Viewer::attach(client, "t", "?replay=0").await?.types("\n").await?;
    let mut viewer = Viewer::attach(client, "t", "?after=10").await?;
    ensure!(viewer.sees("c").await? == "abc" && viewer.lost == 0, "{:?}", viewer.position);
    for (query, field) in [("?after=99", "after"), ("?after=1&replay=1", "after"), ("?skip=x", "skip")] {
        let refused = Viewer::attach(client, "t", query).await.err().map(|error| error.to_string());
        let told = refused.unwrap_or_default();
        ensure!(told.starts_with("400") && told.contains(field), "{query}: {told}");
    }
    cancel_now(client, "t").await?;
    sandbox.stop().await
}

#[tokio::test]
async fn only_a_terminal_can_be_attached_to() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    started(client, "pipe", json!({"shell": "echo up; sleep 600"}), "up").await?;
    started(client, "tty", on_terminal("echo up; sleep 600"), "up").await?;
    for (id, status) in [("pipe", "409"), ("unknown", "404"), ("..", "400"), ("tty?replay=x", "400")] {
        let refusal = Viewer::attach(client, id, "").await.err().map(|error| error.to_string());
        ensure!(refusal.as_ref().is_some_and(|text| text.starts_with(status)), "{id}: {refusal:?}");
    }
    // Without the headers of an upgrade it says what to send.
    let plain = client.get("/v1/terminals/tty").await?;
    ensure!(plain.status == 400 && plain.text().contains("Upgrade: slipway-terminal"), "{}", plain.text());
    for id in ["pipe", "tty"] {
        cancel_now(client, id).await?;
    }
    sandbox.stop().await
}
