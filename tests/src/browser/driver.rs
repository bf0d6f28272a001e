//! Starts and stops a browser: chromedriver on a port of its own, and below it Chromium with a profile of its own.

use crate::{
    host::{Caller, Reply},
    processes,
    sandbox::PATIENCE,
};
use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// As root it has no sandbox of its own, and it must not call home.
const FLAGS: [&str; 13] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--window-size=1000,700",
];
const SIGN: &str = "was started successfully on port ";

/// Which certificates a browser accepts.
enum Trust {
    Everything,
    /// SHA-256 of one public key, in base64.
    Pinned(String),
}

pub struct Browser {
    pub(super) dir: TempDir,
    child: Child,
    /// Open as long as chromedriver runs: it may write there.
    _printed: Lines<BufReader<ChildStdout>>,
    caller: Caller,
    session: String,
}

impl Browser {
    /// Starts chromedriver, which picks a port for both address families and exits if another program took
    /// one of them meanwhile.
    pub async fn start() -> Result<Self> {
        Self::start_as(&Trust::Everything).await
    }

    /// The same, trusting only the certificate with this pin.
    pub async fn start_pinned(pin: String) -> Result<Self> {
        Self::start_as(&Trust::Pinned(pin)).await
    }

    async fn start_as(trust: &Trust) -> Result<Self> {
        for _ in 0..3 {
            if let Ok(browser) = Self::try_start(trust).await {
                return Ok(browser);
            }
        }
        Self::try_start(trust).await
    }

    async fn try_start(trust: &Trust) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("slipway-browser-").tempdir()?;
        let mut child = spawn(dir.path())?;
        let stdout = child.stdout.take().context("its output")?;
        let mut printed = BufReader::new(stdout).lines();
        let port = timeout(PATIENCE, port(&mut printed)).await.context("chromedriver is never ready")??;
        let caller = Caller::tcp(&format!("http://127.0.0.1:{port}"), None);
        let mut browser = Self { dir, child, _printed: printed, caller, session: String::new() };
        browser.begin(trust).await?;
        Ok(browser)
    }

    async fn begin(&mut self, trust: &Trust) -> Result<()> {
        let profile = format!("--user-data-dir={}", self.dir.path().join("profile").display());
        let pin = match trust {
            Trust::Everything => None,
            Trust::Pinned(pin) => Some(format!("--ignore-certificate-errors-spki-list={pin}")),
        };
        let flags: Vec<&str> = FLAGS.into_iter().chain([profile.as_str()]).chain(pin.as_deref()).collect();
        let wanted = json!({
            "browserName": "chrome",
            "acceptInsecureCerts": pin.is_none(),
            "goog:chromeOptions": {"args": flags},
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"pageLoad": PATIENCE.as_millis() as u64, "script": PATIENCE.as_millis() as u64},
        });
        let body = json!({"capabilities": {"alwaysMatch": wanted}});
        let value = value(&self.caller.post("/session", &body).await?)?;
        self.session = value["sessionId"].as_str().context("a session")?.to_owned();
        Ok(())
    }

    /// Asks for something below the session.
    pub(super) async fn ask(&self, path: &str) -> Result<Value> {
        value(&self.caller.get(&format!("/session/{}{path}", self.session)).await?)
    }

    /// Tells the session to do something.
    pub(super) async fn tell(&self, path: &str, body: &Value) -> Result<Value> {
        value(&self.caller.post(&format!("/session/{}{path}", self.session), body).await?)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The child itself is killed by its handle; Chromium would outlive it.
        let Some(pid) = self.child.id() else { return };
        for seen in processes::below(Pid::from_raw(pid as i32)) {
            let _ = kill(seen.pid, Signal::SIGKILL);
        }
    }
}

fn spawn(dir: &Path) -> Result<Child> {
    let said = std::fs::File::create(dir.join("stderr"))?;
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").env_clear().env("HOME", dir).env("TMPDIR", dir).env("PATH", "/usr/bin:/bin");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said).kill_on_drop(true);
    command.spawn().context("start chromedriver (scripts/setup installs it)")
}

async fn port(printed: &mut Lines<BufReader<ChildStdout>>) -> Result<u16> {
    while let Some(line) = printed.next_line().await? {
        if let Some((_, rest)) = line.split_once(SIGN) {
            return Ok(rest.trim_end_matches('.').parse()?);
        }
    }
    bail!("chromedriver ended before it was ready")
}

fn value(reply: &Reply) -> Result<Value> {
    ensure!(reply.status == 200, "chromedriver: {} {}", reply.status, reply.text());
    Ok(reply.json::<Value>()?["value"].take())
}
