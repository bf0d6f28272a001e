//! Terminals of hostd over WebSocket: several viewers, sizes, replay, who may look, and that nothing is lost when
//! hostd is killed.

use anyhow::{Context, Result, ensure};
use futures_util::SinkExt;
use hyper::{Response, body::Incoming};
use serde_json::{Value, json};
use tests::host::{TerminalViewer, ViewerMessage};
use tests::{Caller, Hostd};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;

struct Fixture {
    hostd: Hostd,
    caller: Caller,
    id: String,
}

impl Fixture {
    async fn new() -> Result<Self> {
        let hostd = Hostd::start().await?;
        let caller = hostd.operator()?;
        let id = caller.create(&json!({})).await?;
        Ok(Self { hostd, caller, id })
    }

    /// Starts a shell line on a terminal.
    async fn starts(&self, exec: &str, line: &str) -> Result<()> {
        let body = json!({"id": exec, "shell": line, "tty": {"cols": 91, "rows": 17}});
        let path = format!("/v1/sandboxes/{}/execs", self.id);
        self.caller.post(&path, &body).await?.expect::<Value>(202).map(drop)
    }

    async fn looks(&self, exec: &str, query: &str) -> Result<TerminalViewer> {
        self.caller.attach(&self.id, exec, query).await
    }

    async fn opens(
        &self,
        caller: &Caller,
        exec: &str,
        headers: &[(&str, &str)],
    ) -> Result<Response<Incoming>> {
        TerminalViewer::open(caller, &format!("/v1/sandboxes/{}/terminals/{exec}", self.id), headers).await
    }
}

fn exited(code: i32) -> Option<Value> {
    Some(json!({"kind": "exited", "code": code}))
}

fn closed(code: u16) -> impl Fn(&ViewerMessage) -> bool {
    move |said| matches!(said, ViewerMessage::Closed { code: found, .. } if *found == code)
}

const SHELL: &str = "PS1='$ ' exec bash --noprofile --norc --noediting -i";
const CTRL_C: &str = "\u{3}";

#[tokio::test]
async fn two_viewers_type_and_see_the_same_and_are_told_how_it_ended() -> Result<()> {
    let place = Fixture::new().await?;
    place.starts("t", SHELL).await?;
    let mut one = place.looks("t", "").await?;
    let mut two = TerminalViewer::of(
        TerminalViewer::open(&place.hostd.local(), &format!("/v1/sandboxes/{}/terminals/t", place.id), &[])
            .await?,
    )
    .await?;
    one.sees("$ ").await?;
    one.types("echo $((40+2))\r").await?;
    one.sees("42").await?;
    two.sees("42").await?;
    two.types("echo $((50+5)); stty size\r").await?;
    one.sees("55").await?;
    one.sees("17 91").await?;
    one.resizes(40, 5).await?;
    one.types("stty size\r").await?;
    two.sees("5 40").await?;
    let resize = format!("/v1/sandboxes/{}/execs/t/resize", place.id);
    let reply = place.caller.post(&resize, &json!({"cols": 41, "rows": 6})).await?;
    ensure!(reply.status == 204, "{}", reply.text());
    one.types("stty size\r").await?;
    two.sees("6 41").await?;
    two.types("sleep 1000\r").await?;
    one.sees("sleep 1000").await?;
    // Once it runs: before that the shell itself would take it.
    let running = async || Ok(place.caller.prints(&place.id, "pgrep -x sleep").await.ok());
    tests::host::until("it sleeps", running).await?;
    one.types(CTRL_C).await?;
    two.sees("^C").await?;
    two.types("exit 7\r").await?;
    for viewer in [one, two] {
        let (shown, exit, end) = viewer.rest().await?;
        ensure!(exit == exited(7) && closed(1000)(&end), "{shown:?} {exit:?} {end:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_viewer_begins_where_he_wants_to() -> Result<()> {
    let place = Fixture::new().await?;
    place.starts("t", "printf 0123456789; read x").await?;
    let mut all = place.looks("t", "").await?;
    all.sees("0123456789").await?;
    ensure!(all.position == Some(10), "{:?}", all.position);
    for (query, seen, begins) in [("?replay=3", "789", 7), ("?after=4", "456789", 4), ("?replay=0", "", 10)] {
        let mut viewer = place.looks("t", query).await?;
        viewer.types("").await?;
        if !seen.is_empty() {
            ensure!(viewer.sees("9").await? == seen, "{query}");
            ensure!(viewer.position == Some(begins + seen.len() as u64), "{query} {:?}", viewer.position);
        }
    }
    let far = place.opens(&place.caller, "t", &[]).await?;
    ensure!(far.status() == 101);
    for query in ["?after=11", "?after=1&replay=1", "?replay=x", "?replay=99999999", "?before=1"] {
        let path = format!("/v1/sandboxes/{}/terminals/t{query}", place.id);
        let refused = TerminalViewer::open(&place.caller, &path, &[]).await?;
        ensure!(refused.status() == 400, "{query}: {}", refused.status());
    }
    all.types("\r").await?;
    // An ended terminal can still be viewed.
    ensure!(all.rest().await?.1 == exited(0));
    let (shown, exit, end) = place.looks("t", "").await?.rest().await?;
    ensure!(shown.starts_with("0123456789") && exit == exited(0) && closed(1000)(&end), "{shown:?} {exit:?}");
    Ok(())
}

#[tokio::test]
async fn what_is_no_message_of_ours_ends_the_viewer_with_a_reason_and_not_the_terminal() -> Result<()> {
    let place = Fixture::new().await?;
    place.starts("t", "stty -echo; echo up; cat").await?;
    let table = [
        (Message::text("hello"), 1008),
        (Message::text(r#"{"resize":{"cols":"wide","rows":1}}"#), 1008),
        (Message::text(r#"{"resize":{"cols":0,"rows":1}}"#), 1008),
        (Message::text(r#"{"resize":{"cols":10,"rows":10},"more":1}"#), 1008),
        (Message::binary(vec![b'x'; 65537]), 1009),
        (Message::binary(vec![b'x'; 4 << 20]), 1009),
    ];
    for (message, code) in table {
        let what = format!("{message:?}").chars().take(50).collect::<String>();
        let mut viewer = place.looks("t", "").await?;
        viewer.sees("up").await?;
        // The other end may be gone before all of it is sent.
        let _ = viewer.socket.send(message).await;
        let (_, _, end) = viewer.rest().await?;
        let ViewerMessage::Closed { code: found, reason } = &end else { anyhow::bail!("{what}: {end:?}") };
        ensure!(*found == code && !reason.is_empty(), "{what}: {end:?}");
    }
    let mut viewer = place.looks("t", "").await?;
    viewer.sees("up").await?;
    viewer.socket.get_mut().write_all(b"no frame at all, and not masked either").await?;
    let end = viewer.rest().await?.2;
    ensure!(closed(1002)(&end), "{end:?}");
    let mut viewer = place.looks("t", "").await?;
    viewer.types("still there\r").await?;
    viewer.sees("still there").await?;
    Ok(())
}

#[tokio::test]
async fn other_sites_and_strangers_are_refused_and_a_token_may_be_a_subprotocol() -> Result<()> {
    let place = Fixture::new().await?;
    place.starts("t", "echo up; cat").await?;
    let (own, token) = (place.hostd.url().to_owned(), place.caller.token().context("a token")?.to_owned());
    let offer = format!("slipway.terminal, slipway.token.{token}");
    let wrong = "slipway.terminal, slipway.token.wrong";
    let anonymous = place.caller.with_token(None);
    let protocol = "sec-websocket-protocol";
    let table = [
        (&place.caller, vec![("origin", "https://evil.example")], 403),
        (&anonymous, vec![("origin", "https://evil.example"), (protocol, &offer)], 403),
        (&place.caller, vec![("origin", own.as_str())], 101),
        (&anonymous, vec![], 401),
        (&anonymous, vec![(protocol, "slipway.terminal")], 401),
        (&anonymous, vec![(protocol, wrong)], 401),
        (&anonymous, vec![("origin", own.as_str()), (protocol, &offer)], 101),
        (&place.caller, vec![(protocol, "chat")], 400),
    ];
    for (caller, headers, status) in table {
        let response = place.opens(caller, "t", &headers).await?;
        ensure!(response.status() == status, "{headers:?}: {}", response.status());
        let chosen = response.headers().get(protocol).map(|value| value.as_bytes().to_vec());
        let offered = status == 101 && headers.iter().any(|(name, _)| *name == protocol);
        ensure!(chosen == offered.then(|| b"slipway.terminal".to_vec()), "{headers:?}: {chosen:?}");
        if status == 101 {
            TerminalViewer::of(response).await?.sees("up").await?;
        }
    }
    ensure!(place.opens(&place.caller, "nothing", &[]).await?.status() == 404);
    let path = format!("/v1/sandboxes/{}/execs", place.id);
    let plain = json!({"id": "p", "argv": ["cat"], "stdin_open": true, "wait": false});
    place.caller.post(&path, &plain).await?.expect::<Value>(202)?;
    ensure!(place.opens(&place.caller, "p", &[]).await?.status() == 409, "it has no terminal");
    let told = place.caller.get(&format!("/v1/sandboxes/{}/terminals/t", place.id)).await?;
    ensure!(told.status == 400 && told.text().contains("Upgrade: websocket"), "{}", told.text());
    ensure!(!place.hostd.said().contains(&token), "the token is in the log");
    Ok(())
}

#[tokio::test]
async fn a_viewer_who_does_not_read_holds_up_nobody_and_is_taken_ahead() -> Result<()> {
    let place = Fixture::new().await?;
    place
        .starts("t", "echo begun; read x; seq 9999999 | head -c 40000000; echo; echo all-of-it; read x")
        .await?;
    let mut slow = place.looks("t", "").await?;
    slow.sees("begun").await?;
    let mut quick = place.looks("t", "").await?;
    quick.types("\r").await?;
    quick.sees("all-of-it\r\n").await?;
    // Nothing was read meanwhile; what is shown now is what is there now.
    slow.sees("all-of-it\r\n").await?;
    ensure!(slow.lost > 10_000_000, "only {} bytes were passed over", slow.lost);
    ensure!(slow.position == quick.position, "{:?} {:?}", slow.position, quick.position);
    // A viewer can request everything.
    let mut patient = place.looks("t", "?after=0&skip=0").await?;
    let seen = patient.sees("all-of-it").await?;
    let lines = |text: &str| text.replace('\r', "");
    let expected = String::from_utf8(tests::seq(40_000_000))?;
    ensure!(patient.lost == 0 && lines(&seen).contains(&expected), "{} bytes", seen.len());
    Ok(())
}

#[tokio::test]
async fn through_kill_9_of_hostd_the_stream_goes_on_exactly() -> Result<()> {
    let mut place = Fixture::new().await?;
    let line =
        "stty -echo; for i in $(seq 1 3000); do echo line $i; sleep 0.001; done; read x; echo got $x; exit 3";
    place.starts("t", line).await?;
    let (mut all, mut at) = (String::new(), 0);
    let mut viewer = place.looks("t", "?after=0").await?;
    for part in 1..=4 {
        let sign = format!("line {}\r\n", part * 500);
        // While hostd comes up more may be printed than until the next sign: then it came with the last one.
        if !all.contains(&sign) {
            all += &viewer.sees(&sign).await?;
        }
        place.hostd.kill().await?;
        while viewer.next().await? == ViewerMessage::Shown {}
        all += &viewer.text();
        place.hostd.crash().await?;
        place.caller = place.hostd.operator()?;
        at = viewer.position.unwrap_or(at);
        viewer = place.looks("t", &format!("?after={at}&wake=0")).await?;
    }
    viewer.types("keys\r").await?;
    let (shown, exit, end) = viewer.rest().await?;
    all += &shown;
    let lines: String = (1..=3000).map(|n| format!("line {n}\r\n")).collect();
    ensure!(all == lines + "got keys\r\n", "{} bytes", all.len());
    ensure!(exit == exited(3) && closed(1000)(&end), "{exit:?} {end:?}");
    Ok(())
}

#[tokio::test]
async fn a_hostd_that_shuts_down_and_a_sandbox_that_stops_say_so() -> Result<()> {
    let mut place = Fixture::new().await?;
    place.starts("t", "echo up; cat").await?;
    let mut viewer = place.looks("t", "").await?;
    viewer.sees("up").await?;
    ensure!(place.hostd.terminate().await?.success());
    let end = viewer.rest().await?.2;
    ensure!(closed(1001)(&end), "{end:?}");
    place.hostd.crash().await?;
    place.caller = place.hostd.operator()?;
    let mut viewer = place.looks("t", "").await?;
    viewer.sees("up").await?;
    let stop = format!("/v1/sandboxes/{}/stop", place.id);
    place.caller.post(&stop, &json!({})).await?.expect::<Value>(200)?;
    let (shown, exit, end) = viewer.rest().await?;
    ensure!(exit.is_some() && closed(1000)(&end), "{shown:?} {exit:?} {end:?}");
    Ok(())
}
