//! The uses of a sandbox: commands, terminals, services, tasks, previews, and hostd's listener inside.

use super::driver_column::{Column, Verdict};
use super::fixture::{Fixture, passed};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::sync::Arc;
use tests::apps::App;
use tests::host::{ViewerMessage, until};
use tests::{TaskFeed, complete, messages};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

pub async fn execs(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    let path = format!("/v1/sandboxes/{id}/execs");
    let exited = |code: i32| json!({"kind": "exited", "code": code});
    let table = [
        (json!({"argv": ["sh", "-c", "exit 3"]}), exited(3), ""),
        (json!({"shell": "kill -9 $$"}), json!({"kind": "signalled", "signal": 9}), ""),
        (json!({"argv": ["cat"], "stdin": "typed"}), exited(0), "typed"),
        (json!({"shell": "echo $A; pwd", "env": {"A": "b"}, "cwd": "/tmp"}), exited(0), "b\n/tmp\n"),
        (json!({"argv": ["sleep", "1000"], "timeout_s": 0.2}), json!({"kind": "timed_out"}), ""),
    ];
    for (ask, exit, out) in table {
        let exec: Value = place.caller.post(&path, &ask).await?.expect(200)?;
        let same =
            exit.as_object().context("an exit")?.iter().all(|(name, value)| exec["exit"][name] == *value);
        ensure!(same && exec["stdout"] == out, "{ask}: {exec}");
    }
    let none: Value = place.caller.post(&path, &json!({"argv": ["no-such-program"]})).await?.expect(200)?;
    ensure!(none["exit"]["kind"] == "spawn_failed", "{none}");
    let bytes = place.caller.prints(&id, "head -c 3000000 /dev/zero | wc -c").await?;
    ensure!(bytes.trim() == "3000000", "{bytes}");
    place.leaves(&id, "long", &["sh", "-c", "setsid sleep 1000 & exec sleep 1000"]).await?;
    place.caller.post(&format!("{path}/long/cancel"), &json!({"grace_ms": 0})).await?;
    let ended = |exec: &Value| exec["exit"]["kind"] == "cancelled";
    place.caller.until(&format!("{path}/long"), ended).await?;
    let left = async || Ok((place.caller.prints(&id, "pgrep -c sleep || :").await? == "0\n").then_some(()));
    until("its tree is gone", left).await?;
    passed()
}

pub async fn exec_across_restart(column: Arc<Column>) -> Verdict {
    let (mut place, id) = Fixture::one(&column).await?;
    let line = "for i in $(seq 1 2000); do echo line $i; done; read x; echo $x; exit 7";
    let body = json!({"id": "lives", "shell": line, "stdin_open": true, "wait": false});
    place.caller.post(&format!("/v1/sandboxes/{id}/execs"), &body).await?.expect::<Value>(202)?;
    let init = place.init(&id)?;
    place.crash().await?;
    ensure!(!init.is_gone() && place.hostd.init(&id)? == init.pid, "it was not left running");
    let path = format!("/v1/sandboxes/{id}/execs/lives");
    let sent = place.caller.post(&format!("{path}/stdin?eof=1"), &json!("typed")).await?;
    ensure!(sent.status == 204, "{}", sent.text());
    let output = place.caller.follow_until(&format!("{path}/output?follow=1"), "\"typed\"\n").await?;
    let expected: String = (1..=2000).map(|n| format!("line {n}\n")).collect();
    ensure!(output == format!("{expected}\"typed\"\n"), "{} bytes", output.len());
    let exec = place.caller.until(&path, |exec| exec["exit"].is_object()).await?;
    ensure!(exec["exit"] == json!({"kind": "exited", "code": 7}), "{exec}");
    passed()
}

pub async fn terminals(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    let shell = "PS1='$ ' exec bash --noprofile --norc --noediting -i";
    let body = json!({"id": "t", "shell": shell, "tty": {"cols": 91, "rows": 17}});
    place.caller.post(&format!("/v1/sandboxes/{id}/execs"), &body).await?.expect::<Value>(202)?;
    let mut one = place.caller.attach(&id, "t", "").await?;
    let mut two = place.caller.attach(&id, "t", "").await?;
    one.sees("$ ").await?;
    one.types("stty size; tty < /dev/tty >/dev/null && echo ter''minal\r").await?;
    two.sees("17 91").await?;
    two.sees("terminal").await?;
    two.resizes(40, 5).await?;
    two.types("stty size; exit 7\r").await?;
    one.sees("5 40").await?;
    for viewer in [one, two] {
        let (shown, exit, end) = viewer.rest().await?;
        let closed = matches!(end, ViewerMessage::Closed { code: 1000, .. });
        ensure!(exit == Some(json!({"kind": "exited", "code": 7})) && closed, "{shown:?} {exit:?} {end:?}");
    }
    passed()
}

pub async fn services(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let command = "echo begun $OWN; exec python3 -u -m http.server 3000 --bind 127.0.0.1";
    let service = json!({
        "name": "web", "command": command, "port": 3000, "env": {"OWN": "web"}, "health": {"tcp": 3000},
    });
    let id = place.caller.create(&json!({"services": [service]})).await?;
    let path = format!("/v1/sandboxes/{id}/services");
    let logs = format!("{path}/web/logs?follow=1");
    let ready = |page: &Value| page["items"][0]["state"] == "ready";
    place.caller.until(&path, ready).await?;
    place.caller.follow_until(&logs, "begun web\n").await?;
    place.verb(&id, "services/web/restart").await?;
    place.caller.until(&path, |page| ready(page) && page["items"][0]["restarts"] == 1).await?;
    place.brings(&id, "stop", "stopped").await?;
    place.brings(&id, "start", "running").await?;
    place.caller.until(&path, ready).await?;
    let asked = "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:3000/";
    ensure!(place.caller.prints(&id, asked).await? == "200");
    let ports: Value = place.caller.get(&format!("/v1/sandboxes/{id}/ports")).await?.expect(200)?;
    ensure!(
        ports["items"].as_array().is_some_and(|all| all.iter().any(|port| port["port"] == 3000)),
        "{ports}"
    );
    place.caller.follow_until(&logs, "begun web\n").await?;
    passed()
}

pub async fn tasks(column: Arc<Column>) -> Verdict {
    let (mut place, id) = Fixture::one(&column).await?;
    let line = "for i in 1 2 3; do echo say $i; done; while [ ! -e go ]; do sleep 0.05; done; echo new > made; echo bye";
    let job = place.caller.submit(&id, &json!({"prompt": "do it", "command": ["sh", "-c", line]})).await?;
    let mut feed = TaskFeed::open(&place.caller, &job, 0).await?.context("a stream")?;
    feed.until(|event| event.fact.get("text").is_some_and(|text| text == "say 3")).await?;
    let (mut events, seen) = (std::mem::take(&mut feed.events), feed.seen);
    place.crash().await?;
    place.caller.prints(&id, "touch go").await?;
    let mut feed = TaskFeed::open(&place.caller, &job, seen).await?.context("a stream")?;
    feed.rest().await?;
    events.append(&mut feed.events);
    complete(&events)?;
    ensure!(messages(&events) == ["say 1", "say 2", "say 3", "bye"], "{events:?}");
    let result = &events.last().context("a done")?.fact["result"];
    ensure!(result["status"] == "succeeded" && result.to_string().contains("made"), "{result}");
    ensure!(TaskFeed::open(&place.caller, &job, feed.seen).await?.is_none(), "the stream begins again");
    passed()
}

/// Answers with a page, and echoes what comes by WebSocket.
const SERVER: &str = r#"
import base64, hashlib, http.server, struct
class Visit(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        key = self.headers.get("sec-websocket-key")
        if key: return self.echo(key)
        self.answer(b"hello from inside")
    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers["content-length"])))
    def answer(self, body):
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def echo(self, key):
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                         b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8: break
            length = head[1] & 127
            mask, data = self.rfile.read(4), self.rfile.read(length)
            self.wfile.write(bytes([head[0], length]) + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))
        self.close_connection = True
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Visit).serve_forever()
"#;

const ECHO: App = App { name: "echo", command: "exec python3 server.py", port: 8000 };

pub async fn previews(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let id = place.caller.create(&json!({"ports": [8000], "visibility": "public"})).await?;
    let app = ECHO.in_sandbox(&place.hostd, &id).await?;
    std::fs::write(app.dir.join("server.py"), SERVER)?;
    app.serve(ECHO.command).await?;
    let page = app.get("/", &[]).await?;
    ensure!(page.status == 200 && page.text() == "hello from inside", "{}", page.text());
    let mut socket = app.socket("/", &[]).await?;
    for text in ["hello", "again"] {
        socket.say(Message::text(text)).await?;
        ensure!(socket.hear().await? == Message::text(text), "another echo");
    }
    for verb in ["pause", "stop"] {
        app.verb(verb).await?;
        let body = "x".repeat(200_000);
        let reply = app.post("/", &[], body.clone()).await?;
        ensure!(reply.status == 200 && reply.text() == body, "after {verb}: {}", reply.status);
    }
    let mut socket = app.socket("/", &[]).await?;
    socket.say(Message::text("awake")).await?;
    ensure!(socket.hear().await? == Message::text("awake"));
    let closed = app.name()?.replace("-8000.", "-8001.");
    let mut line = app.line().await?;
    line.say(&format!("GET / HTTP/1.1\r\nHost: {closed}\r\nConnection: close\r\n\r\n")).await?;
    let answer = line.rest().await?;
    ensure!(answer.contains("8001") && answer.contains("8000"), "it does not say what listens: {answer}");
    passed()
}

pub async fn status_page(column: Arc<Column>) -> Verdict {
    let (mut place, id) = Fixture::one(&column).await?;
    let closed = place.caller.create(&json!({"network": "none"})).await?;
    let asks = "curl -s -H 'accept: application/json' \"$SLIPWAY_STATUS_URL\"";
    let sees = async |place: &Fixture, id: &str, when: &str| -> Result<()> {
        let page: Value =
            serde_json::from_str(&place.caller.prints(id, asks).await?).context(when.to_owned())?;
        ensure!(page["id"] == id && page["status"] == "running", "{when}: {page}");
        Ok(())
    };
    sees(&place, &id, "at first").await?;
    sees(&place, &closed, "without a network").await?;
    place.brings(&id, "stop", "stopped").await?;
    place.brings(&id, "start", "running").await?;
    sees(&place, &id, "after a wake").await?;
    place.crash().await?;
    sees(&place, &id, "after a kill of hostd").await?;
    passed()
}

/// A loopback address that no tool takes for its own machine.
const OUTSIDE: &str = "127.0.0.78:0";

pub async fn egress(column: Arc<Column>) -> Verdict {
    let listener = TcpListener::bind(OUTSIDE).await?;
    let at = listener.local_addr()?.to_string();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut piece = [0; 4096];
            let _ = stream.read(&mut piece).await;
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nserved";
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let place = Fixture::with(&column, &[("SLIPWAY_EGRESS_PRIVATE", at.as_str())]).await?;
    let (id, closed) =
        (place.caller.create(&json!({})).await?, place.caller.create(&json!({"network": "none"})).await?);
    let ask = format!("curl -s --max-time 30 http://{at}/");
    ensure!(place.caller.prints(&id, &ask).await? == "served", "it does not get out");
    let refused =
        place.caller.shell(&id, "curl -s -o /dev/null -w '%{http_code}' http://169.254.169.254/").await?;
    ensure!(refused["stdout"] == "403", "{refused}");
    let out = place.caller.shell(&closed, &ask).await?;
    ensure!(out["exit"]["code"] != 0, "{out}");
    place.event(&id, |event| event["kind"].as_str().is_some_and(|kind| kind.starts_with("egress"))).await?;
    serving.abort();
    passed()
}
