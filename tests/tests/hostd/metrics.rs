//! The metrics as an operator uses them: scraped by a real Prometheus, shown by the dashboard, and alerted on.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::apps::{RAW, Running};
use tests::host::until;
use tests::model::{Dialect, FakeModel, Script, Turn};
use tests::prometheus::Prometheus;
use tests::{Caller, Hostd, shell};

/// An agent that calls its model once.
const AGENT: &str = r#"
[agents.asker]
speaks = "command"
find = ["sh"]
args = ["-c", '''exec curl -sS "$ASK_URL/chat/completions" -H "Authorization: Bearer $ASK_KEY" -H "content-type: application/json" -d '{"model":"m","messages":[{"role":"user","content":"do it"}],"tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object"}}}]}' ''']
dialects = ["openai"]
env_for.openai = { ASK_URL = "{base_url}/v1", ASK_KEY = "{key}" }
"#;

/// The parts of docs/operations.md that say what to do.
const RUNBOOKS: [&str; 10] = [
    "disk-full",
    "memory-pressure",
    "engine-down",
    "hostd-does-not-start",
    "sandbox-in-error",
    "task-hangs",
    "preview-502",
    "provider-errors",
    "database-grows",
    "lost-data-directory",
];

fn document(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The queries of the dashboard by their panel, with its variables replaced as Grafana does.
fn dashboard() -> Result<Vec<(String, String)>> {
    let dashboard: Value = serde_json::from_slice(&std::fs::read(document("docs/grafana/slipway.json"))?)?;
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().context("panels")? {
        let title = panel["title"].as_str().context("a title")?;
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().context("a query")?;
            let query = query.replace("$__rate_interval", "10m").replace("$instance", ".*");
            let query = query.replace("$job", "slipway");
            ensure!(!query.contains('$'), "{title} has an unknown variable: {query}");
            queries.push((title.to_owned(), query));
        }
    }
    Ok(queries)
}

/// Names of metrics in an expression.
fn metrics_of(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let ours = |word: &&str| word.starts_with("slipway_") || word.starts_with("process_");
    words.filter(ours).map(str::to_owned).collect()
}

/// Makes a hostd do what the dashboard shows.
async fn use_everything(hostd: &Hostd, fake: &FakeModel, app: &Running) -> Result<()> {
    let operator = hostd.operator()?;
    let spec = json!({"dialect": "openai", "key": "a-key-of-its-own", "base_url": fake.base_url(Dialect::Chat),
        "models": [{"name": "m", "price": {"input": 1.0, "output": 2.0}}], "default": "m", "verify": false});
    operator.put("/v1/model-providers/local-llm", &spec).await?.expect::<Value>(200)?;
    operator.put("/v1/quotas/default", &json!({"sandboxes": 4})).await?.expect::<Value>(200)?;
    operator.create(&json!({})).await?;
    let (sandbox, path) = (&app.sandbox, format!("/v1/sandboxes/{}", app.sandbox));
    for body in [shell("echo done"), json!({"prompt": "p", "agent": "asker"})] {
        let job = operator.submit(sandbox, &body).await?;
        let result = operator.result_of(&job).await?;
        ensure!(result["status"] == "succeeded", "{result}");
    }
    let exec = |wait: bool| json!({"argv": ["true"], "wait": wait});
    let started = operator.post(&format!("{path}/execs"), &exec(false)).await?;
    // It may have ended already.
    ensure!(matches!(started.status, 200 | 202), "{}", started.text());
    for (verb, status) in [("pause", "paused"), ("stop", "stopped")] {
        operator.post(&format!("{path}/{verb}"), &json!({})).await?;
        operator.becomes(sandbox, status).await?;
        operator.post(&format!("{path}/execs"), &exec(true)).await?.expect::<Value>(200)?;
    }
    operator.post(&format!("{path}/stop"), &json!({})).await?;
    operator.becomes(sandbox, "stopped").await?;
    let page = app.get("/", &[]).await?;
    ensure!(page.status == 200, "{} {}", page.status, page.text());
    Ok(())
}

/// Whether a sample is a number: a quantile of nothing is not.
fn is_finite(sample: &Value) -> bool {
    let value = sample["value"][1].as_str().and_then(|text| text.parse::<f64>().ok());
    value.is_some_and(f64::is_finite)
}

#[tokio::test]
async fn every_query_of_the_dashboard_has_data_and_every_alert_is_evaluated() -> Result<()> {
    let config = tempfile::tempdir()?;
    let file = config.path().join("slipway.toml");
    std::fs::write(&file, format!("metrics_bind = \"127.0.0.1:0\"\nmetrics_sandboxes = 10\n{AGENT}"))?;
    let hostd = Hostd::start_with(&[("SLIPWAY_CONFIG", file.to_str().context("text")?)]).await?;
    let fake = FakeModel::start(None).await?;
    fake.script(Script::new([Turn::say("Done.")]));
    let address = hostd.metrics_address()?;
    // It is there at the first scrape, which begins to sample sandboxes; the next sample is seconds later.
    let app = RAW.launch(&hostd).await?;
    let prometheus = Prometheus::start(address, &document("docs/prometheus/alerts.yml")).await?;
    use_everything(&hostd, &fake, &app).await?;

    let operator = hostd.operator()?;
    let mut empty: BTreeMap<String, String> =
        dashboard()?.into_iter().map(|(title, query)| (query, title)).collect();
    ensure!(empty.len() > 50, "{} queries", empty.len());
    until("data for every query of the dashboard", async || {
        // Of a series that begins with its first count, only the next one is a change.
        operator.get("/v1/host").await?.expect::<Value>(200)?;
        for query in empty.keys().cloned().collect::<Vec<_>>() {
            if prometheus.query(&query).await?.iter().any(is_finite) {
                empty.remove(&query);
            }
        }
        Ok(empty.is_empty().then_some(()))
    })
    .await
    .with_context(|| format!("without data: {empty:#?}"))?;

    let rules = until("the alerts are evaluated", async || {
        let rules = prometheus.rules().await?;
        let known = rules.iter().all(|rule| rule["health"] != "unknown");
        Ok((known && !rules.is_empty()).then_some(rules))
    })
    .await?;
    let text = Caller::tcp(address, None).get("/metrics").await?.text();
    let there: BTreeSet<&str> = text.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    for rule in &rules {
        ensure!(rule["health"] == "ok", "{rule}");
        let query = rule["query"].as_str().context("a query")?;
        let gone = metrics_of(query).into_iter().find(|name| !there.contains(name.as_str()));
        ensure!(gone.is_none(), "{query}: there is no {gone:?}");
    }
    hostd.stop().await
}

#[test]
fn the_alert_rules_are_good_and_name_their_runbooks() -> Result<()> {
    let file = document("docs/prometheus/alerts.yml");
    let checked = Command::new("promtool").args(["check", "rules", "--lint-fatal"]).arg(&file).output();
    let checked = checked.context("run promtool: scripts/setup installs it")?;
    ensure!(checked.status.success(), "{checked:?}");
    let text = std::fs::read_to_string(file)?;
    let of = |prefix: &str| -> Vec<&str> {
        text.lines().filter_map(|line| line.trim().strip_prefix(prefix)).collect()
    };
    let (alerts, runbooks) = (of("- alert: "), of("runbook: "));
    ensure!(!alerts.is_empty() && alerts.len() == runbooks.len(), "{alerts:?} {runbooks:?}");
    let named: BTreeSet<&str> =
        runbooks.iter().filter_map(|runbook| runbook.strip_prefix("docs/operations.md#")).collect();
    ensure!(named == BTreeSet::from(RUNBOOKS), "{named:?}");
    for runbook in runbooks {
        let (page, part) = runbook.split_once('#').context("a part")?;
        let Ok(page) = std::fs::read_to_string(document(page)) else {
            // Its parts are those above.
            ensure!(page == "docs/operations.md", "{page} is not there");
            continue;
        };
        let anchors = page.lines().filter_map(|line| line.strip_prefix('#')).map(anchor);
        ensure!(anchors.into_iter().any(|found| found == part), "{runbook}");
    }
    Ok(())
}

/// The anchor of a heading, as Markdown viewers make it.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[tokio::test]
async fn only_metrics_are_served_without_a_token_and_only_on_their_own_listener() -> Result<()> {
    let hostd = Hostd::start_with(&[("SLIPWAY_METRICS_BIND", "127.0.0.1:0")]).await?;
    let scraper = Caller::tcp(hostd.metrics_address()?, None);
    let metrics = scraper.get("/metrics").await?;
    ensure!(metrics.status == 200 && metrics.text().ends_with("# EOF\n"), "{}", metrics.text());
    let kind = metrics.headers["content-type"].to_str()?;
    ensure!(kind.starts_with("application/openmetrics-text"), "{kind}");
    for (path, expected) in [("/", 404), ("/v1/sandboxes", 404), ("/healthz", 404), ("/openapi.json", 404)] {
        ensure!(scraper.get(path).await?.status == expected, "{path}");
    }
    ensure!(scraper.post("/metrics", &json!({})).await?.status == 405);
    // On the API the peer's address opens nothing.
    let anonymous = hostd.operator()?.with_token(None);
    ensure!(anonymous.get("/metrics").await?.status == 401);
    hostd.stop().await?;
    let without = Hostd::start().await?;
    ensure!(without.metrics_address().is_err(), "off unless it is configured");
    without.stop().await
}
