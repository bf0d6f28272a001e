//! Traces from an API request to the process that it starts, as a collector gets them; and the ids of requests in the
//! log.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tests::collector::{Collector, ExportedSpan};
use tests::host::until;
use tests::{Caller, Hostd, Job, lines, shell};
use tokio::net::TcpSocket;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// In prompts, environments and outputs, and in no span.
const MARK: &str = "the-mark-that-nobody-may-export";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER_SPAN: &str = "00f067aa0ba902b7";

/// Sends a request with further headers.
async fn post(caller: &Caller, path: &str, body: &Value, headers: &[(&str, &str)]) -> Result<(u16, Value)> {
    let mut request = Request::post(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = caller.open(request.body(Full::new(Bytes::from(body.to_string())))?).await?;
    let status = response.status().as_u16();
    Ok((status, serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?))
}

/// The spans from this one up to that of the request, by their ids.
fn up_to_the_request<'a>(
    by_id: &'a BTreeMap<String, ExportedSpan>,
    from: &str,
) -> Option<Vec<&'a ExportedSpan>> {
    let mut chain = vec![by_id.get(from)?];
    loop {
        match chain.last()?.parent.as_deref()? {
            CALLER_SPAN => return Some(chain),
            parent => chain.push(by_id.get(parent)?),
        }
    }
}

#[tokio::test]
async fn one_trace_leads_from_a_request_into_the_agent_and_has_no_content() -> Result<()> {
    let collector = Collector::start().await?;
    let hostd = Hostd::start_with(&[(ENDPOINT, &collector.endpoint())]).await?;
    let operator = hostd.operator()?;
    let sandbox = operator.create(&json!({"env": {"SECRET": MARK}})).await?;
    let path = format!("/v1/sandboxes/{sandbox}");
    operator.post(&format!("{path}/stop"), &json!({})).await?;
    operator.becomes(&sandbox, "stopped").await?;

    // The task wakes the sandbox.
    let body = json!({"prompt": MARK, "command": ["sh", "-c", "echo $TRACEPARENT; echo $SECRET"]});
    let given = format!("00-{TRACE}-{CALLER_SPAN}-01");
    let headers = [("traceparent", given.as_str()), ("x-request-id", "observed-1")];
    let (status, task) = post(&operator, &format!("{path}/tasks"), &body, &headers).await?;
    ensure!(status == 202, "{task}");
    let job = Job { sandbox: sandbox.clone(), id: task["id"].as_str().context("an id")?.to_owned() };
    let said = lines(&operator.events_of(&job).await?)?;
    let told = String::from_utf8(said.first().context("a line")?.clone())?;
    ensure!(said.get(1).is_some_and(|line| line == MARK.as_bytes()), "{said:?}");
    let [version, trace, span, flags] = told.split('-').collect::<Vec<_>>()[..] else {
        anyhow::bail!("{told}");
    };
    ensure!((version, trace, flags) == ("00", TRACE, "01"), "{told}");

    let (chain, spans) = until("the spans of the trace", async || {
        let spans: BTreeMap<String, ExportedSpan> =
            collector.spans()?.into_iter().map(|span| (span.id.clone(), span)).collect();
        let launched = spans.values().find(|span| span.trace == TRACE && span.name == "driver launch");
        let Some(launched) = launched else { return Ok(None) };
        // What the agent was told, and the launch: each has a way up to the request.
        let (Some(sent), Some(_)) =
            (up_to_the_request(&spans, span), up_to_the_request(&spans, &launched.id))
        else {
            return Ok(None);
        };
        Ok(Some((sent.into_iter().cloned().collect::<Vec<_>>(), spans.clone())))
    })
    .await?;
    let (first, last) = (chain.first().context("a span")?, chain.last().context("a span")?);
    ensure!(first.name == "runtimed" && first.attributes["http.route"] == "/v1/tasks", "{chain:#?}");
    ensure!(last.name == "POST /v1/sandboxes/{id}/tasks", "{chain:#?}");
    ensure!(last.attributes["http.response.status_code"] == "202", "{chain:#?}");
    ensure!(last.attributes["slipway.request"] == "observed-1", "{chain:#?}");
    ensure!(last.attributes["slipway.sandbox"] == sandbox, "{chain:#?}");
    ensure!(spans.values().any(|span| span.name == "reconcile" && span.trace == TRACE), "{spans:#?}");

    // An exec without a trace of its caller begins one.
    let printed = operator.prints(&sandbox, "echo $TRACEPARENT").await?;
    ensure!(printed.starts_with("00-") && !printed.contains(TRACE), "{printed}");
    hostd.stop().await?;
    let exported = String::from_utf8(collector.bytes())?;
    ensure!(exported.contains(printed.split('-').nth(1).context("a trace")?), "what was left is exported");
    ensure!(!exported.contains(MARK) && !exported.contains("SECRET"), "content was exported");
    Ok(())
}

#[tokio::test]
async fn a_collector_that_is_away_costs_nothing_but_spans() -> Result<()> {
    // The port is bound, and nothing listens on it.
    let taken = TcpSocket::new_v4()?;
    taken.bind("127.0.0.1:0".parse()?)?;
    let endpoint = format!("http://{}", taken.local_addr()?);
    let hostd = Hostd::start_with(&[(ENDPOINT, &endpoint)]).await?;
    let operator = hostd.operator()?;
    let sandbox = operator.create(&json!({})).await?;
    let complaint = "spans were not exported";
    until("a complaint", async || Ok(hostd.said().contains(complaint).then_some(()))).await?;
    for _ in 0..10 {
        operator.prints(&sandbox, "true").await?;
    }
    ensure!(hostd.said().matches(complaint).count() == 1, "{}", hostd.said());
    hostd.stop().await
}

#[tokio::test]
async fn without_an_endpoint_nothing_is_traced_and_a_wrong_one_is_refused() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let sandbox = operator.create(&json!({})).await?;
    let path = format!("/v1/sandboxes/{sandbox}/execs");
    let given = format!("00-{TRACE}-{CALLER_SPAN}-01");
    let body = json!({"shell": "echo \"[$TRACEPARENT]\""});
    let (status, exec) = post(&operator, &path, &body, &[("traceparent", &given)]).await?;
    ensure!(status == 200 && exec["stdout"] == "[]\n", "{exec}");
    hostd.stop().await?;
    let refused = Hostd::start_with(&[(ENDPOINT, "collector:4318")]).await.err().context("it starts")?;
    ensure!(format!("{refused:#}").contains("OTEL_EXPORTER_OTLP_ENDPOINT: must be"), "{refused:#}");
    Ok(())
}

#[tokio::test]
async fn log_lines_have_the_id_of_the_request_that_caused_them() -> Result<()> {
    let config = tempfile::tempdir()?;
    let file = config.path().join("slipway.toml");
    let agent = "[agents.absent]\nspeaks = \"command\"\nfind = [\"no-such-program\"]\n";
    std::fs::write(&file, agent)?;
    let hostd = Hostd::start_with(&[("SLIPWAY_CONFIG", file.to_str().context("text")?)]).await?;
    let operator = hostd.operator()?;
    let sandbox = operator.create(&json!({})).await?;
    let path = format!("/v1/sandboxes/{sandbox}/tasks");
    let (status, task) =
        post(&operator, &path, &json!({"prompt": MARK, "agent": "absent"}), &[("x-request-id", "seen-1")])
            .await?;
    ensure!(status == 202, "{task}");
    let id = task["id"].as_str().context("an id")?;
    operator.submit(&sandbox, &shell("true")).await?;
    // Written by another task of hostd, long after the request was answered.
    let line = until("the line about the task", async || {
        let said = hostd.said();
        let line = said.lines().find(|line| line.contains("recording the end of a task"));
        Ok(line.map(str::to_owned))
    })
    .await?;
    let line: Value = serde_json::from_str(&line)?;
    let span = &line["spans"][0];
    ensure!(span["name"] == "request" && span["request"] == "seen-1", "{line}");
    ensure!(span["sandbox"] == sandbox.as_str() && span["task"] == id, "{line}");
    ensure!(!hostd.said().contains(MARK), "a prompt is in the log");
    hostd.stop().await
}
