//! A page in a real browser that calls the API by HTTP/2, trusting one certificate by its pin.

use anyhow::{Result, ensure};
use serde_json::json;
use tests::https::{Certificate, LOOPBACK};
use tests::launch::directory;
use tests::{Browser, Caller, Hostd};

/// More than the six connections that a browser opens to one host by HTTP/1.1.
const STREAMS: u64 = 12;

#[tokio::test]
async fn a_page_has_more_streams_by_http2_than_a_browser_has_connections() -> Result<()> {
    let dir = directory()?;
    let certificate = Certificate::make_for(dir.path(), "api", LOOPBACK, 2)?;
    let hostd = Hostd::start_with(&certificate.variables()?).await?;
    let browser = Browser::start_pinned(certificate.pin()?).await?;
    let token = std::fs::read_to_string(hostd.data().join("token"))?;
    let token = token.trim();

    // Any page of the API's own origin will do.
    browser.open(&format!("{}/healthz", hostd.url())).await?;
    let script = format!(
        "window.open_streams = 0;
         window.heard = 0;
         window.headers = {{authorization: 'Bearer {token}', accept: 'text/event-stream'}};
         for (let number = 0; number < {STREAMS}; number++) (async () => {{
             const response = await fetch('/v1/events', {{headers: window.headers}});
             const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
             let seen = '', is_open = false, has_heard = false;
             for (;;) {{
                 const {{value, done}} = await reader.read();
                 if (done) return;
                 seen += value;
                 if (!is_open) {{ is_open = true; window.open_streams++; }}
                 if (!has_heard && seen.includes('sandbox.')) {{ has_heard = true; window.heard++; }}
             }}
         }})();
         return null;"
    );
    browser.script(&script).await?;
    let counts = async |name: &str| -> Result<()> {
        let count =
            async || Ok((browser.script(&format!("return window.{name}")).await? == STREAMS).then_some(()));
        tests::host::until(name, count).await
    };
    counts("open_streams").await?;
    let operator = Caller::tls(hostd.url(), &certificate, Some(token));
    operator.create(&json!({"network": "none"})).await?;
    counts("heard").await?;

    // A call beside the streams, and the protocol of all of them.
    browser
        .script("fetch('/v1/host', {headers: window.headers}).then(r => r.json()).then(host => window.host = host); return null;")
        .await?;
    let host = async || {
        let host = browser.script("return window.host?.default_driver ?? null").await?;
        Ok((!host.is_null()).then_some(host))
    };
    ensure!(tests::host::until("the call is answered", host).await? == "oci");
    let protocols = "return [...new Set(performance.getEntriesByType('navigation').concat(
        performance.getEntriesByType('resource').filter(each => each.name.endsWith('/v1/host'))).map(each => each.nextHopProtocol))]";
    ensure!(browser.script(protocols).await? == json!(["h2"]), "{}", browser.script(protocols).await?);
    let complaints = browser.complaints().await?;
    ensure!(complaints.iter().all(|text| text.contains("favicon")), "{complaints:?}");
    hostd.stop().await
}

#[tokio::test]
async fn a_browser_refuses_a_certificate_that_is_not_the_pinned_one() -> Result<()> {
    let dir = directory()?;
    let certificate = Certificate::make_for(dir.path(), "api", LOOPBACK, 2)?;
    let other = Certificate::make_for(dir.path(), "other", LOOPBACK, 2)?;
    let hostd = Hostd::start_with(&certificate.variables()?).await?;
    let browser = Browser::start_pinned(other.pin()?).await?;
    // The driver fails, or shows the browser's own page; the answer of hostd is never seen.
    let opened = browser.open(&format!("{}/healthz", hostd.url())).await;
    let shown = browser.text("body").await?.unwrap_or_default();
    ensure!(!shown.contains("status"), "{opened:?} {shown}");
    ensure!(opened.is_err() || shown.contains("ERR_CERT"), "{opened:?} {shown}");
    hostd.stop().await
}
