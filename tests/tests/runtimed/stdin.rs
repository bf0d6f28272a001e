//! Standard input: none, in the request, or streamed while the command reads it.

use anyhow::{Result, ensure};
use protocol::{ErrorCode, Exit};
use serde_json::json;
use tests::expect_error::refused;
use tests::raw_http::Wire;
use tests::shell::{cancel_now, prints, shell, started, stdout};
use tests::{Random, Sandbox, scaled, send_input};

const EXITED_0: Option<Exit> = Some(Exit::Exited { code: 0 });

#[tokio::test]
async fn input_is_empty_unless_it_is_given() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    ensure!(shell(sandbox.client(), "readlink /proc/self/fd/0; cat").await? == "/dev/null\n");
    sandbox.stop().await
}

#[tokio::test]
async fn input_in_the_request_is_read_to_its_end() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let megabyte = "x".repeat(1 << 20);
    for (stdin, command, printed) in [
        ("", "cat", ""),
        ("a\nb", "cat", "a\nb"),
        ("é\u{0}ü", "cat", "é\u{0}ü"),
        (&megabyte, "wc -c", "1048576\n"),
        // A command that does not read its input is not disturbed.
        (&megabyte, "true", ""),
        (&megabyte, "head -c 3", "xxx"),
    ] {
        let view = sandbox.client().exec(json!({"shell": command, "stdin": stdin})).await?;
        ensure!(view.exit == EXITED_0 && stdout(&view)? == printed, "{command}: {:?}", view.exit);
    }
    sandbox.stop().await
}

#[tokio::test]
async fn input_that_says_where_it_belongs_is_read_once_however_often_it_is_sent() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    client.start(json!({"id": "cat", "shell": "cat", "stdin": "<", "stdin_open": true})).await?;
    for (at, piece) in [(0, "abc"), (0, "abc"), (3, "def"), (1, "bcdefgh"), (8, ""), (2, "cd"), (8, "i")] {
        let answer = send_input(client, "cat", piece, &format!("?at={at}")).await?;
        ensure!(answer.status == 204, "{piece} at {at}: {}", answer.text());
    }
    // A hole would be read as if nothing were missing.
    let answer = send_input(client, "cat", "z", "?at=10").await?;
    refused(&answer, ErrorCode::Conflict, None)?;
    ensure!(send_input(client, "cat", "hi>", "?at=7&eof=1").await?.status == 204);
    ensure!(stdout(&client.ended("cat").await?)? == "<abcdefghi>");
    sandbox.stop().await
}

#[tokio::test]
async fn input_is_streamed_in_pieces_until_its_end_is_told() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let sent = Random::seeded().bytes(scaled(3 << 20, 64 << 20));
    client.start(json!({"id": "cat", "shell": "sha256sum; wc -c </dev/null", "stdin_open": true})).await?;
    for piece in sent.chunks(700_001) {
        let answer = send_input(client, "cat", piece.to_vec(), "").await?;
        ensure!(answer.status == 204, "{}", answer.text());
    }
    ensure!(send_input(client, "cat", "", "?eof=1").await?.status == 204);
    let view = client.ended("cat").await?;
    sandbox.write_app("sent", "")?;
    std::fs::write(sandbox.app().join("sent"), &sent)?;
    let expected = shell(client, "sha256sum <sent").await?;
    ensure!(stdout(&view)? == format!("{expected}0\n"), "{view:?}");
    // The request's own input comes first.
    client.start(json!({"id": "both", "shell": "cat", "stdin": "1", "stdin_open": true})).await?;
    ensure!(send_input(client, "both", "2", "?eof").await?.status == 204);
    ensure!(stdout(&client.ended("both").await?)? == "12");
    // Even when it is not read before more is sent.
    let line = "trap : USR1; echo up; until read -t 0.01 -n 1 x <go 2>/dev/null; do :; done; tr -s ab";
    let request = json!({"shell": line, "stdin": "a".repeat(1 << 20), "stdin_open": true});
    started(client, "slow", request, "up").await?;
    let typing = tokio::spawn({
        let client = client.clone();
        async move { send_input(&client, "slow", "b", "?eof").await }
    });
    shell(client, "echo x >go").await?;
    ensure!(typing.await??.status == 204);
    ensure!(stdout(&client.ended("slow").await?)? == "up\nab");
    sandbox.stop().await
}

#[tokio::test]
async fn input_that_nobody_reads_is_refused_when_the_exec_ends() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client().clone();
    started(&client, "deaf", json!({"shell": "echo up; exec sleep 600", "stdin_open": true}), "up").await?;
    let typing = tokio::spawn({
        let client = client.clone();
        async move { send_input(&client, "deaf", vec![0; 4 << 20], "?eof=1").await }
    });
    cancel_now(&client, "deaf").await?;
    refused(&typing.await??, ErrorCode::NotRunning, None)?;
    refused(&send_input(&client, "deaf", "late", "").await?, ErrorCode::NotRunning, None)?;

    started(&client, "closed", json!({"shell": "exec <&-; echo up; sleep 600", "stdin_open": true}), "up")
        .await?;
    refused(&send_input(&client, "closed", "x", "").await?, ErrorCode::NotRunning, None)?;
    cancel_now(&client, "closed").await?;

    started(&client, "null", json!({"shell": "echo up; sleep 600"}), "up").await?;
    refused(&send_input(&client, "null", "x", "").await?, ErrorCode::Conflict, None)?;
    refused(&send_input(&client, "unknown", "x", "").await?, ErrorCode::NotFound, None)?;
    cancel_now(&client, "null").await?;
    sandbox.stop().await
}

#[tokio::test]
async fn whoever_still_types_is_told_that_the_exec_has_ended() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    client
        .start(json!({"id": "reads", "shell": "read line; echo got $line; cat", "stdin_open": true}))
        .await?;
    let head = "POST /v1/execs/reads/stdin HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut typist = Wire::send(&sandbox.control_dir().join("sock"), format!("{head}4\r\none\n\r\n")).await?;
    prints(client, "reads", "got one").await?;
    cancel_now(client, "reads").await?;
    // Nothing more is sent, and the body is not ended either.
    let answer = typist.until("not_running").await?;
    ensure!(answer.starts_with("HTTP/1.1 409"), "{answer}");
    sandbox.stop().await
}

#[tokio::test]
async fn whoever_sends_everything_first_reads_the_refusal_too() -> Result<()> {
    // More than a socket holds, so that it is not all sent when the answer comes.
    const BODY_BYTES: usize = 16 << 20;
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    started(client, "deaf", json!({"shell": "echo up; exec sleep 600", "stdin_open": true}), "up").await?;
    for (id, ends_now, status, code) in [
        ("deaf", true, 409, "not_running"),
        // Refused before a byte of the body is read.
        ("deaf", false, 409, "not_running"),
        ("unknown", false, 404, "not_found"),
    ] {
        let head =
            format!("POST /v1/execs/{id}/stdin HTTP/1.1\r\nhost: x\r\ncontent-length: {BODY_BYTES}\r\n\r\n");
        let mut typist = Wire::send(&sandbox.control_dir().join("sock"), head).await?;
        typist.write("first").await?;
        if ends_now {
            cancel_now(client, id).await?;
        }
        typist.write(vec![0; BODY_BYTES - 5]).await?;
        let answer = typist.until(code).await?;
        ensure!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    sandbox.stop().await
}
