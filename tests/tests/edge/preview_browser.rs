//! Previews in a real browser, by their names: what a person sees of real apps, asleep, awake and broken.

use anyhow::{Context, Result, ensure};
use protocol::api::Visibility;
use std::path::Path;
use tempfile::TempDir;
use tests::apps::{App, DJANGO, FILES, NEXT, Running, VITE};
use tests::host::until;
use tests::{Browser, Hostd, certificate};

/// Survives whatever does not load the page anew.
const MARK: &str = "window.mark = 'here'";
const MARKED: &str = "return window.mark === 'here'";

/// Before that a form is sent by the browser itself, which loads the page anew.
const TAKEN_OVER: &str =
    "return Object.keys(document.querySelector('form')).some(key => key.startsWith('__react'))";

async fn marked(browser: &Browser) -> Result<bool> {
    // A page that is just replaced by another cannot be asked.
    Ok(browser.script(MARKED).await.is_ok_and(|marked| marked == true))
}

/// Checks that the browser console has no complaint about the app.
async fn is_content(browser: &Browser) -> Result<()> {
    let complaints = browser.complaints().await?;
    ensure!(complaints.is_empty(), "{complaints:?}");
    Ok(())
}

#[tokio::test]
async fn an_edit_reaches_the_page_of_vite_without_a_reload_and_a_sleep_loses_nothing() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (app, browser) = tokio::try_join!(VITE.launch(&hostd), Browser::start())?;
    browser.open(&app.url).await?;
    browser.sees("h1", "Hello from Vite").await?;
    ensure!(browser.title().await? == "Vite in a sandbox");
    browser.click("button").await?;
    browser.sees("button", "clicked 1").await?;
    browser.script(MARK).await?;
    app.edit("src/App.jsx", "Hello from Vite", "Hello from an edit")?;
    browser.sees("h1", "Hello from an edit").await?;
    browser.sees("button", "clicked 1").await?;
    ensure!(marked(&browser).await?, "the page was loaded anew");
    is_content(&browser).await?;
    browser.picture("vite").await?;

    // Its own page sees the server go, and comes again when it is back.
    app.prints("kill -9 $(pgrep -f '[n]ode_modules/.bin/vite')").await?;
    until("the page is loaded anew", async || Ok((!marked(&browser).await?).then_some(()))).await?;
    browser.sees("h1", "Hello from an edit").await?;

    app.verb("stop").await?;
    browser.reload().await?;
    browser.sees("h1", "Hello from an edit").await?;
    browser.sees("button", "clicked 0").await?;
    ensure!(app.status().await? == "running" && app.attempts().await? == 2);
    browser.script(MARK).await?;
    app.edit("src/App.jsx", "Hello from an edit", "Hello after a sleep")?;
    browser.sees("h1", "Hello after a sleep").await?;
    ensure!(marked(&browser).await?, "the page was loaded anew");
    browser.picture("vite-after-sleep").await?;
    Ok(())
}

#[tokio::test]
async fn a_server_action_and_an_edit_of_next_work() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (app, browser) = tokio::try_join!(NEXT.launch(&hostd), Browser::start())?;
    browser.open(&app.url).await?;
    browser.sees("h1", "Hello from Next").await?;
    let taken_over = async || Ok((browser.script(TAKEN_OVER).await? == true).then_some(()));
    until("the form is the app's", taken_over).await?;
    browser.script(MARK).await?;
    browser.enter("input[name=name]", "Ann").await?;
    browser.click("form button").await?;
    browser.sees("#guests", "Ann").await?;
    ensure!(app.prints("cat guests.txt").await? == "Ann\n");
    app.edit("app/page.jsx", "Hello from Next", "Hello from an edit")?;
    browser.sees("h1", "Hello from an edit").await?;
    ensure!(marked(&browser).await?, "the page was loaded anew");
    is_content(&browser).await?;
    browser.picture("next").await?;
    Ok(())
}

#[tokio::test]
async fn a_person_logs_in_to_django() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (app, browser) = tokio::try_join!(DJANGO.launch(&hostd), Browser::start())?;
    browser.open(&app.url).await?;
    browser.picture("django-login").await?;
    browser.enter("input[name=username]", "ann").await?;
    browser.enter("input[name=password]", "harbour").await?;
    browser.click("button").await?;
    browser.sees("h1", "Hello ann").await?;
    browser.picture("django").await?;
    app.verb("stop").await?;
    browser.reload().await?;
    browser.sees("h1", "Hello ann").await?;
    Ok(())
}

/// Serves once there is a file `go`, and says what it waits for.
const PATIENT: App =
    App { command: "until [ -e go ]; do sleep 0.05; done; exec python3 -m http.server", ..FILES };

/// Fails until there is a file `go`.
const BROKEN: App = App {
    command: "[ -e go ] || { echo 'cannot find the file go'; exit 3; }; exec python3 -m http.server",
    ..FILES
};

/// The server's process, which is the only one of python.
async fn kill_server(app: &Running) -> Result<()> {
    app.prints("kill -9 $(pgrep -f '[h]ttp.server')").await?;
    Ok(())
}

#[tokio::test]
async fn a_tab_that_waits_for_an_app_to_start_moves_on_by_itself() -> Result<()> {
    let hostd = Hostd::start().await?;
    let browser = Browser::start().await?;
    let app = PATIENT.prepare(&hostd).await?;
    app.prints("touch go").await?;
    app.serve(PATIENT.command).await?;
    app.prints("rm go").await?;
    app.verb("stop").await?;
    browser.open(&app.url).await?;
    ensure!(browser.text("h1").await?.is_some_and(|title| !title.contains("Hello from files")));
    browser.picture("warming").await?;
    ensure!(app.attempts().await? == 2, "it was not woken once");
    app.prints("touch go").await?;
    browser.sees("h1", "Hello from files").await?;
    ensure!(app.attempts().await? == 2);
    browser.picture("warmed").await?;
    Ok(())
}

#[tokio::test]
async fn a_page_says_why_there_is_no_app_and_gives_way_to_it() -> Result<()> {
    let hostd = Hostd::start().await?;
    let browser = Browser::start().await?;
    let app = BROKEN.prepare(&hostd).await?;
    app.prints("touch go").await?;
    app.serve(BROKEN.command).await?;
    browser.open(&app.url).await?;
    browser.sees("h1", "Hello from files").await?;
    app.prints("rm go").await?;
    kill_server(&app).await?;
    app.until_services(|page| page["items"][0]["last_exit"]["code"] == 3).await?;
    browser.reload().await?;
    for told in ["web", "exited", "3", "cannot find the file go"] {
        browser.sees("body", told).await?;
    }
    browser.picture("explained").await?;
    app.prints("touch go").await?;
    browser.sees("h1", "Hello from files").await?;
    Ok(())
}

#[tokio::test]
async fn a_page_links_to_the_port_that_something_does_listen_on() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (app, browser) = tokio::try_join!(FILES.launch(&hostd), Browser::start())?;
    let other = app.url.replace("-8000.", "-3000.");
    browser.open(&other).await?;
    browser.sees("body", "3000").await?;
    browser.picture("another-port").await?;
    browser.click(&format!("a[href^='{}']", app.url)).await?;
    browser.sees("h1", "Hello from files").await?;
    Ok(())
}

/// A hostd whose previews are served by TLS, and where its certificate is.
async fn secure() -> Result<(Hostd, TempDir)> {
    let dir = tempfile::tempdir()?;
    let (certificate, key) = certificate::make(dir.path()).await?;
    let path = |path: &Path| path.to_str().map(str::to_owned).context("a name that is text");
    let (certificate, key) = (path(&certificate)?, path(&key)?);
    let variables =
        [("SLIPWAY_PREVIEW_TLS_CERT", certificate.as_str()), ("SLIPWAY_PREVIEW_TLS_KEY", key.as_str())];
    Ok((Hostd::start_with(&variables).await?, dir))
}

#[tokio::test]
async fn a_private_preview_opens_by_its_link_and_by_tls_also_within_another_page() -> Result<()> {
    let (hostd, _certificate) = secure().await?;
    let browser = Browser::start().await?;
    let app = FILES.prepare_as(&hostd, Visibility::Private).await?;
    app.serve(FILES.command).await?;
    app.prints("mkdir inner; echo '<h1>Hello from within</h1>' > inner/index.html").await?;
    ensure!(app.url.starts_with("https://"), "{}", app.url);
    browser.open(&app.url).await?;
    ensure!(browser.text("h1").await?.is_some_and(|title| !title.contains("Hello")));
    browser.picture("private").await?;

    // On a page of another site, which has nothing of what the browser knows of the preview itself.
    browser.open(&format!("{}/healthz", hostd.url())).await?;
    let frame = format!("<h2>outside</h2><iframe width=600 height=300 src='{}'></iframe>", app.link().await?);
    browser.script(&format!("document.body.innerHTML = `{frame}`")).await?;
    browser.within("iframe").await?;
    browser.sees("h1", "Hello from files").await?;
    browser.script("location.href = '/inner/'").await?;
    browser.sees("h1", "Hello from within").await?;
    browser.picture("framed").await?;
    browser.open(&app.url).await?;
    ensure!(
        browser.text("h1").await?.is_some_and(|title| !title.contains("Hello")),
        "let in by the other page"
    );

    browser.open(&app.link().await?).await?;
    browser.sees("h1", "Hello from files").await?;
    ensure!(
        browser.script("return location.href").await? == format!("{}/", app.url),
        "the pass is to be seen"
    );
    ensure!(browser.script("return document.cookie").await? == "", "a page can read the pass");
    browser.open(&app.url).await?;
    browser.sees("h1", "Hello from files").await?;
    Ok(())
}
