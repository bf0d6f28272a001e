//! Error pages of previews without an app, and pages that wait for it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::apps::{RAW, Running};
use tests::sandbox::PATIENCE;
use tests::{Hostd, Reply};
use tokio::time::timeout;

const PERSON: (&str, &str) = ("accept", "text/html");
/// After so many failures no request waits for a service, and the pause before the next try is long enough
/// for a request.
const FAILURES: Option<u64> = Some(3);

/// An answer that is an excuse: a page for a person, JSON for a program, both with the same words.
async fn excuse(app: &Running, path: &str, words: &[&str]) -> Result<(Reply, Value)> {
    let page = app.get(path, &[PERSON]).await?;
    let told: Value = app.get(path, &[]).await?.json()?;
    ensure!(page.headers["content-type"].to_str()?.starts_with("text/html"), "{:?}", page.headers);
    ensure!(page.headers.contains_key("x-slipway-error"), "{:?}", page.headers);
    let message = told["error"]["message"].as_str().context("a message")?;
    for word in words {
        ensure!(page.text().contains(word), "{word:?} in {}", page.text());
        ensure!(message.contains(word), "{word:?} in {message}");
    }
    Ok((page, told))
}

/// The same app, seen on another of its ports.
fn on_port(app: &Running, port: u16) -> Running {
    let mut other = app.clone();
    other.url = app.url.replace("-8000.", &format!("-{port}."));
    other
}

#[tokio::test]
async fn a_port_where_nothing_listens_says_where_something_does() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = RAW.launch(&hostd).await?;
    let (page, told) = excuse(&on_port(&app, 3000), "/", &["3000"]).await?;
    ensure!(page.status == 502 && told["error"]["code"] == "port_closed", "{} {told}", page.status);
    ensure!(page.text().contains(&app.url), "no link to {} in {}", app.url, page.text());
    let listening = &told["error"]["detail"]["listening"];
    ensure!(
        listening[0]["port"] == 8000 && listening[0]["process"]["command"] == "python3 -u app.py",
        "{told}"
    );
    ensure!(listening.as_array().map(Vec::len) == Some(1), "hostd's own port must not be listed: {told}");
    hostd.stop().await
}

#[tokio::test]
async fn a_service_that_fails_is_shown_with_its_last_words_and_the_next_try() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = RAW.prepare(&hostd).await?;
    let command = "for n in $(seq 30); do echo line $n; done; echo \"<b>boom</b>\" >&2; yes same | head -n 5 >&2; exit 7";
    app.want(command).await?;
    app.until_services(|page| page["items"][0]["failures"].as_u64() >= FAILURES).await?;
    let (page, told) = excuse(&app, "/", &["web", "7"]).await?;
    ensure!(page.status == 502, "{}", page.status);
    ensure!(
        page.text().contains("&lt;b&gt;boom&lt;/b&gt;") && page.text().contains("line 30"),
        "{}",
        page.text()
    );
    ensure!(!page.text().contains("<b>boom"), "what an app prints must not be markup");
    ensure!(page.text().contains("same ×5\n"), "what repeats is counted: {}", page.text());
    let service = &told["error"]["detail"]["service"];
    ensure!(service["state"] == "backoff" && service["last_exit"]["code"] == 7, "{told}");
    ensure!(service["last_lines"].as_array().is_some_and(|lines| lines.len() >= 20), "{told}");
    hostd.stop().await
}

#[tokio::test]
async fn the_world_is_told_the_reason_and_whoever_shows_a_token_the_rest() -> Result<()> {
    // Not a name of this host alone, so a proxy may be in front.
    let hostd = Hostd::start_with(&[("SLIPWAY_PREVIEW_DOMAIN", "example.com")]).await?;
    let app = RAW.prepare(&hostd).await?;
    app.want("echo hush-hush; exit 7 # by-the-way").await?;
    app.until_services(|page| page["items"][0]["failures"].as_u64() >= FAILURES).await?;
    let token = std::fs::read_to_string(hostd.data().join("token"))?;
    for html in [true, false] {
        let accept = if html { PERSON } else { ("accept", "application/json") };
        let told = app.get("/", &[accept]).await?.text();
        ensure!(told.contains("does not stay up") || told.contains("exited"), "{told}");
        ensure!(!told.contains("hush-hush") && !told.contains("by-the-way"), "html {html}: {told}");
        let told = app.get("/", &[accept, ("x-slipway-token", token.trim())]).await?.text();
        ensure!(told.contains("hush-hush"), "html {html}: {told}");
    }
    hostd.stop().await
}

#[tokio::test]
async fn a_service_killed_for_memory_says_so() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let spec = json!({"ports": [8000], "limits": {"memory_mb": 64}, "services": [{
        "name": "web", "port": 8000, "command": "exec python3 -c 'x = bytearray(1 << 30)'"}]});
    let sandbox = operator.create(&spec).await?;
    let app = RAW.in_sandbox(&hostd, &sandbox).await?;
    let page = app.until_services(|page| page["items"][0]["failures"].as_u64() >= FAILURES).await?;
    ensure!(page["items"][0]["last_exit"]["kind"] == "oom", "{page}");
    excuse(&app, "/", &["memory", "64"]).await?;
    hostd.stop().await
}

#[tokio::test]
async fn who_opens_a_page_sees_it_coming_and_programs_wait() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = RAW.prepare(&hostd).await?;
    app.want("until [ -e go ]; do sleep 0.05; done; exec python3 -u app.py").await?;
    // Held for a second, and then shown what is being done.
    let page = app.get("/", &[PERSON]).await?;
    ensure!(page.status == 503 && page.text().contains("web"), "{} {}", page.status, page.text());
    ensure!(page.headers.contains_key("retry-after"), "{:?}", page.headers);
    let mut steps = app.events("/.slipway/wake").await?;
    let step = steps.next().await?.context("a step")?;
    ensure!(step.contains("retry:"), "{step}");
    let step = steps.next().await?.context("a step")?;
    ensure!(step.contains("event: step") && step.contains("8000"), "{step}");
    // A program is held meanwhile, and served when it can be.
    let program = tokio::spawn({
        let app = app.clone();
        async move { app.post("/body", &[], "held").await }
    });
    let busy = format!("/v1/sandboxes/{}/activity", app.sandbox);
    let streams = |seen: &Value| seen["reasons"].as_array()?.iter().find_map(|why| why["streams"].as_u64());
    hostd.operator()?.until(&busy, |seen| streams(seen) >= Some(1)).await?;
    app.prints("touch go").await?;
    let served = program.await??;
    ensure!(served.status == 200 && served.text().starts_with("POST 4 "), "{}", served.text());
    ensure!(served.headers.contains_key("server-timing"), "{:?}", served.headers);
    loop {
        let step = steps.next().await?.context("the stream ends before it is ready")?;
        if step.contains("event: ready") {
            break;
        }
    }
    ensure!(steps.next().await?.is_none(), "nothing follows");
    hostd.stop().await
}

#[tokio::test]
async fn who_waits_sees_what_this_start_prints_and_nothing_older() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = RAW.prepare(&hostd).await?;
    app.prints("echo first > which").await?;
    app.want("echo $(cat which) start; until [ -e go ]; do sleep 0.05; done; exec python3 -u app.py").await?;
    shown_while_it_waits(&app, "first start\n", "second start\n").await?;
    app.prints("touch go").await?;
    app.ready().await?;
    app.prints("rm go; echo second > which").await?;
    app.verb("stop").await?;
    shown_while_it_waits(&app, "second start\n", "first start\n").await?;
    hostd.stop().await
}

/// Opens the page until it shows one line, and never the other.
async fn shown_while_it_waits(app: &Running, wanted: &str, unwanted: &str) -> Result<()> {
    let shown = async {
        loop {
            let page = app.get("/", &[PERSON]).await?;
            ensure!(page.status == 503 && !page.text().contains(unwanted), "{} {}", page.status, page.text());
            if page.text().contains(wanted) {
                return Ok(());
            }
        }
    };
    timeout(PATIENCE, shown).await.with_context(|| format!("{wanted:?} is never shown"))?
}

#[tokio::test]
async fn what_only_looks_wakes_nobody() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = RAW.launch(&hostd).await?;
    app.verb("stop").await?;
    let answer = app.get("/", &[("accept", "text/x-vite-ping")]).await?;
    ensure!(answer.status == 503, "{}", answer.text());
    let mut steps = app.events("/.slipway/wake").await?;
    steps.next().await?;
    let step = steps.next().await?.context("a step")?;
    ensure!(step.contains("event: asleep"), "{step}");
    ensure!(app.status().await? == "stopped", "woken");
    hostd.stop().await
}

#[tokio::test]
async fn a_sandbox_in_error_or_gone_is_explained() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = RAW.launch(&hostd).await?;
    hostd.kill_init(&app.sandbox)?;
    hostd.operator()?.becomes(&app.sandbox, "error").await?;
    let (page, _) = excuse(&app, "/", &["slipway start"]).await?;
    ensure!(page.status == 502, "{}", page.status);
    let gone = app.clone();
    app.destroy().await?;
    let page = gone.get("/", &[PERSON]).await?;
    ensure!(page.status == 410, "{} {}", page.status, page.text());
    hostd.stop().await
}
