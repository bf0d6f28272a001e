//! Previews of real dev servers, as they come: nothing in their configuration knows of us.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tests::apps::{App, DJANGO, FILES, NEXT, Running, UVICORN, VITE};
use tests::{Hostd, Random, Reply};
use tokio_tungstenite::tungstenite::Message;

const ELSEWHERE: &str = "http://elsewhere.example";
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// A file that a preview is asked for, of a server bound to some address.
const BOUND_V4: App = App { command: "exec python3 -m http.server --bind 127.0.0.1", ..FILES };
const BOUND_V6: App = App { command: "exec python3 -m http.server --bind ::1", ..FILES };

#[tokio::test]
async fn every_server_answers_wherever_on_loopback_it_listens() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let table = [
        (FILES, &["0.0.0.0"], "Hello from files"),
        (BOUND_V4, &["127.0.0.1"], "Hello from files"),
        (BOUND_V6, &["::1"], "Hello from files"),
        (UVICORN, &["127.0.0.1"], "from uvicorn"),
        (VITE, &["::1"], "Vite in a sandbox"),
        (NEXT, &["::"], "Hello from Next"),
    ];
    for (app, listens, wanted) in table {
        let running = app.launch(&hostd).await?;
        let ports: Value =
            operator.get(&format!("/v1/sandboxes/{}/ports", running.sandbox)).await?.expect(200)?;
        let ports = ports["items"].as_array().context("ports")?.clone();
        let ours = ports.iter().filter(|port| port["port"] == app.port);
        let addresses: Vec<&str> = ours.filter_map(|port| port["address"].as_str()).collect();
        ensure!(addresses == listens, "{} listens on {addresses:?}", app.name);
        let page = running.get("/", &[]).await.with_context(|| app.name)?;
        ensure!(page.status == 200 && page.text().contains(wanted), "{}: {}", app.name, page.text());
        running.destroy().await?;
    }
    Ok(())
}

/// Returns a header as the app received it.
fn told(seen: &Value, name: &str) -> Option<String> {
    let headers = seen["headers"].as_array()?;
    let values: Vec<&str> =
        headers.iter().filter(|pair| pair[0] == name).filter_map(|pair| pair[1].as_str()).collect();
    (!values.is_empty()).then(|| values.join("; "))
}

#[tokio::test]
async fn an_app_believes_to_be_asked_on_localhost_and_knows_strangers_as_such() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = UVICORN.launch(&hostd).await?;
    let page = format!("{}/page?q=1", app.url);
    let sent = [
        ("origin", app.url.as_str()),
        ("referer", &page),
        ("x-forwarded-for", "1.2.3.4"),
        ("x-forwarded-host", "evil.example"),
        ("forwarded", "host=evil.example"),
        ("x-own", "kept"),
    ];
    let seen: Value = app.get("/seen", &sent).await?.expect(200)?;
    ensure!(told(&seen, "host").as_deref() == Some("localhost:8000"), "{seen}");
    ensure!(told(&seen, "origin").as_deref() == Some("http://localhost:8000"), "{seen}");
    ensure!(told(&seen, "referer").as_deref() == Some("http://localhost:8000/page?q=1"), "{seen}");
    ensure!(told(&seen, "x-own").as_deref() == Some("kept"), "{seen}");
    ensure!(told(&seen, "x-forwarded-host").is_none() && told(&seen, "forwarded").is_none(), "{seen}");
    ensure!(told(&seen, "x-forwarded-for").is_none_or(|by| !by.contains("1.2.3.4")), "{seen}");
    let seen: Value = app.get("/seen", &[("origin", ELSEWHERE)]).await?.expect(200)?;
    ensure!(told(&seen, "origin").as_deref() == Some(ELSEWHERE), "{seen}");
    let moved = app.get("/moved", &[]).await?;
    ensure!(moved.status == 302 && moved.headers["location"] == format!("{}/seen", app.url), "{moved:?}");
    Ok(())
}

#[tokio::test]
async fn a_socket_echoes_and_an_event_is_seen_before_the_next_one_is_sent() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = UVICORN.launch(&hostd).await?;
    let mut socket = app.socket("/", &[("origin", &app.url)]).await?;
    let big: Bytes = bytes(1 << 20).into();
    for message in [Message::text("hello"), Message::binary(big), Message::text("")] {
        socket.say(message.clone()).await?;
        ensure!(socket.hear().await? == message, "another echo");
    }
    let mut events = app.events("/events").await?;
    ensure!(events.next().await?.as_deref() == Some("data: open"));
    for number in 0..5 {
        app.post(&format!("/emit?{number}"), &[], "").await?.expect::<Value>(200)?;
        let seen = events.next().await?;
        ensure!(seen == Some(format!("data: {number}")), "{seen:?}");
    }
    app.post("/emit?end", &[], "").await?.expect::<Value>(200)?;
    ensure!(events.next().await?.as_deref() == Some("data: end"));
    ensure!(events.next().await?.is_none(), "the stream goes on");
    Ok(())
}

fn bytes(length: usize) -> Vec<u8> {
    let mut random = Random::from_seed(7);
    (0..length).map(|_| random.below(256) as u8).collect()
}

#[tokio::test]
async fn a_large_post_and_a_socket_wake_a_sandbox_and_lose_nothing() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = UVICORN.launch(&hostd).await?;
    let body = bytes(5 << 20);
    let digest: String = Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
    let whole = json!({"length": body.len(), "sha256": digest});
    for (attempt, verb) in [(2, "stop"), (2, "pause")] {
        app.verb(verb).await?;
        let got: Value = app.post("/upload", &[], body.clone()).await?.expect(200)?;
        ensure!(got == whole, "after {verb}: {got}");
        ensure!(app.status().await? == "running" && app.attempts().await? == attempt, "after {verb}");
    }
    for (attempt, verb) in [(3, "stop"), (3, "pause")] {
        app.verb(verb).await?;
        let mut socket = app.socket("/", &[]).await.context(verb)?;
        socket.say(Message::text(verb)).await?;
        ensure!(socket.hear().await? == Message::text(verb));
        ensure!(app.attempts().await? == attempt, "after {verb}");
    }
    Ok(())
}

/// The cookie of a name that an answer sets.
fn cookie(reply: &Reply, name: &str) -> Result<String> {
    let set = reply.headers.get_all("set-cookie").iter().filter_map(|value| value.to_str().ok());
    let mut pairs = set.filter_map(|value| value.split(';').next());
    let found = pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    Ok(found.with_context(|| format!("no cookie {name} in {reply:?}"))?.to_owned())
}

#[tokio::test]
async fn django_lets_its_own_form_log_in_and_refuses_one_from_elsewhere() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = DJANGO.launch(&hostd).await?;
    let stranger = app.get("/", &[]).await?;
    ensure!(stranger.status == 302 && stranger.headers["location"] == "/login?next=/", "{stranger:?}");
    let form = app.get("/login", &[]).await?;
    let token = cookie(&form, "csrftoken")?;
    let cookies = format!("csrftoken={token}");
    let filled = format!("csrfmiddlewaretoken={token}&username=ann&password=harbour");
    let log_in = async |origin: &str| {
        app.post("/login", &[("origin", origin), ("cookie", &cookies), FORM], filled.clone()).await
    };
    let foreign = log_in(ELSEWHERE).await?;
    ensure!(foreign.status == 403 && foreign.text().contains("Origin checking failed"), "{}", foreign.text());
    let own = log_in(&app.url).await?;
    ensure!(own.status == 302 && own.headers["location"] == "/", "{} {}", own.status, own.text());
    let session = format!("sessionid={}", cookie(&own, "sessionid")?);
    let home = app.get("/", &[("cookie", &session)]).await?;
    ensure!(home.status == 200 && home.text().contains("Hello ann"), "{}", home.text());
    Ok(())
}

/// The path of Vite's socket, with the word that its own page knows.
async fn vite_socket(app: &Running) -> Result<String> {
    let client = app.get("/@vite/client", &[]).await?.text();
    let token = client.split_once("wsToken = \"").and_then(|(_, rest)| rest.split('"').next());
    Ok(format!("/?token={}", token.context("no token in Vite's client")?))
}

#[tokio::test]
async fn an_edit_comes_through_the_socket_of_vite_also_after_the_sandbox_slept() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = VITE.launch(&hostd).await?;
    for (from, to) in [("Hello from Vite", "Hello again"), ("Hello again", "Hello at last")] {
        ensure!(app.get("/src/App.jsx", &[]).await?.text().contains(from));
        let headers = [("origin", app.url.as_str()), ("sec-websocket-protocol", "vite-hmr")];
        let mut socket = app.socket(&vite_socket(&app).await?, &headers).await?;
        socket.hears("\"connected\"").await?;
        app.edit("src/App.jsx", from, to)?;
        let update = socket.hears("\"update\"").await?;
        ensure!(update.contains("/src/App.jsx"), "{update}");
        app.verb("stop").await?;
    }
    ensure!(app.get("/src/App.jsx", &[]).await?.text().contains("Hello at last"));
    Ok(())
}

#[tokio::test]
async fn next_opens_its_socket_to_its_own_page_and_not_to_another() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = NEXT.launch(&hostd).await?;
    let page = app.get("/", &[("accept", "text/html")]).await?;
    ensure!(page.status == 200 && page.text().contains("Hello from Next"), "{}", page.text());
    app.socket("/_next/hmr?id=1", &[("origin", &app.url)]).await?;
    let foreign = app.upgrade("/_next/hmr?id=2", &[("origin", ELSEWHERE)]).await;
    ensure!(foreign.as_ref().map_or(true, |answer| answer.status() != 101), "{foreign:?}");
    Ok(())
}
