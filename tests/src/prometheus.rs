//! A real Prometheus on loopback, which scrapes one target and evaluates alert rules.

use crate::host::{Caller, until};
use crate::launch::directory;
use crate::sandbox::PATIENCE;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Killed when it is dropped.
pub struct Prometheus {
    _dir: TempDir,
    _child: Child,
    caller: Caller,
}

impl Prometheus {
    /// Scrapes the target as the job `slipway`, twice a second.
    pub async fn start(target: &str, rules: &Path) -> Result<Self> {
        let dir = directory()?;
        let config = dir.path().join("prometheus.yml");
        let text = format!(
            "global: {{ scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms }}\n\
             rule_files: [\"{}\"]\n\
             scrape_configs:\n  - job_name: slipway\n    static_configs: [{{ targets: [\"{target}\"] }}]\n",
            rules.display()
        );
        std::fs::write(&config, text)?;
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()));
        command.args(["--web.listen-address=127.0.0.1:0", "--log.format=json"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("start prometheus: scripts/setup installs it")?;
        let address = timeout(PATIENCE, address(&mut child)).await.context("it never listens")??;
        let prometheus = Self { _dir: dir, _child: child, caller: Caller::tcp(&address, None) };
        until("a first scrape", async || {
            let up = prometheus.query("up{job=\"slipway\"} == 1").await;
            Ok(up.ok().filter(|up| !up.is_empty()))
        })
        .await?;
        Ok(prometheus)
    }

    /// The samples that an expression has now.
    pub async fn query(&self, expression: &str) -> Result<Vec<Value>> {
        let path = format!("/api/v1/query?query={}", encoded(expression));
        let reply: Value = self.caller.get(&path).await?.expect(200).context(expression.to_owned())?;
        ensure!(reply["status"] == "success", "{expression}: {reply}");
        Ok(reply["data"]["result"].as_array().context("a result")?.clone())
    }

    /// All rules, as they were evaluated last.
    pub async fn rules(&self) -> Result<Vec<Value>> {
        let reply: Value = self.caller.get("/api/v1/rules").await?.expect(200)?;
        let groups = reply["data"]["groups"].as_array().context("groups")?;
        Ok(groups.iter().filter_map(|group| group["rules"].as_array()).flatten().cloned().collect())
    }
}

/// The address in the lines that it logs. What it logs later is read and thrown away.
async fn address(child: &mut Child) -> Result<String> {
    let mut lines = BufReader::new(child.stderr.take().context("its log")?).lines();
    let mut said = String::new();
    while let Some(line) = lines.next_line().await? {
        let entry: Value = serde_json::from_str(&line).unwrap_or_default();
        let address = entry["address"].as_str().filter(|address| !address.ends_with(":0"));
        if let Some(address) = address {
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok(address.to_owned());
        }
        said.push_str(&line);
    }
    anyhow::bail!("it ended: {said}")
}

/// Every byte but letters and digits as `%XX`.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
        encoded
    })
}
