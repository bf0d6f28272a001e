//! Exports traces to a collector, as OTLP over HTTP in JSON. Nothing waits for it: a collector that is slow or away
//! costs spans, which the log counts now and then.

use crate::command::Failure;
use bytes::Bytes;
use hostd_net::{
    http1::{ExchangeError, Http1Connection},
    outbound::{OutboundConnector, OutboundError},
};
use hostd_trace::{FinishedSpan, SpanQueue, Tracer, otlp};
use http_body_util::Full;
use hyper::{
    Request, StatusCode, Uri,
    client::conn::http1::Builder,
    header::{CONTENT_TYPE, HOST, HeaderValue},
};
use std::time::{Duration, Instant};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::{either::Either, sync::CancellationToken};
use tracing::warn;

/// The variable of the OpenTelemetry specification that switches the export on.
pub const ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Spans that wait for the collector; more are dropped.
const QUEUE_MAX: usize = 4_096;
/// Spans of one request to the collector, and how long they are gathered.
const BATCH_MAX: usize = 512;
const GATHER: Duration = Duration::from_millis(200);
/// Time of one request to the collector, and of the last ones when hostd ends.
const SEND_MAX: Duration = Duration::from_secs(5);
const FLUSH_MAX: Duration = Duration::from_secs(2);
const HEAD_MAX_BYTES: usize = 16 << 10;
/// The least time between two log lines about spans that were lost.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Where traces go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    secure: bool,
    /// A name or an address; IPv6 without brackets.
    host: String,
    port: u16,
    authority: HeaderValue,
    target: Uri,
}

impl Collector {
    /// Reads the variable; absent or empty, nothing is exported.
    pub fn from_environment() -> Result<Option<Self>, Failure> {
        let endpoint = std::env::var(ENDPOINT_VARIABLE).unwrap_or_default();
        if endpoint.is_empty() {
            return Ok(None);
        }
        let wrong = || {
            let shape = "must be http:// or https:// with a host, as in http://127.0.0.1:4318";
            Failure::Usage(format!("{ENDPOINT_VARIABLE}: {shape}, not {endpoint:?}"))
        };
        Self::parse(&endpoint).map(Some).ok_or_else(wrong)
    }

    fn parse(endpoint: &str) -> Option<Self> {
        let uri: Uri = endpoint.parse().ok()?;
        let secure = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority =
            uri.authority().filter(|name| !name.as_str().contains('@') && !name.host().is_empty())?;
        Some(Self {
            secure,
            host: authority.host().trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: HeaderValue::from_str(authority.as_str()).ok()?,
            target: format!("{}{}", uri.path().trim_end_matches('/'), otlp::PATH).parse().ok()?,
        })
    }
}

#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error(transparent)]
    Connect(#[from] OutboundError),
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    #[error("could not make the request")]
    Request(#[from] hyper::http::Error),
    #[error("the collector answered with status {0}")]
    Refused(StatusCode),
    #[error("the collector did not answer in time")]
    TimedOut,
}

/// The task that exports.
pub struct TraceExport {
    tracer: Tracer,
    ending: CancellationToken,
    task: JoinHandle<()>,
}

impl TraceExport {
    /// Starts the task; call it inside the runtime.
    pub fn start(collector: Collector, instance: String) -> Self {
        let (tracer, queue) = hostd_trace::queue(QUEUE_MAX);
        let ending = CancellationToken::new();
        let exporter = Exporter {
            collector,
            connector: OutboundConnector::from_host_config(),
            instance,
            queue,
            lost: 0,
            reported: None,
        };
        let task = tokio::spawn(exporter.run(ending.clone()));
        Self { tracer, ending, task }
    }

    pub fn tracer(&self) -> Tracer {
        self.tracer.clone()
    }

    /// Exports what is queued, for a moment, and ends.
    pub async fn finish(self) {
        self.ending.cancel();
        let _ = timeout(FLUSH_MAX, self.task).await;
    }
}

struct Exporter {
    collector: Collector,
    connector: OutboundConnector,
    instance: String,
    queue: SpanQueue,
    /// Spans lost since the last log line about it, and when that was.
    lost: u64,
    reported: Option<Instant>,
}

impl Exporter {
    async fn run(mut self, ending: CancellationToken) {
        loop {
            let first = tokio::select! {
                // Both only wait: spans are either taken or still in the queue.
                () = ending.cancelled() => break,
                first = self.queue.take(BATCH_MAX) => first,
            };
            let Some(mut spans) = first else { return };
            // A request's spans end one after the other.
            ending.run_until_cancelled(sleep(GATHER)).await;
            spans.extend(self.queue.take_ready(BATCH_MAX - spans.len()));
            self.export(&spans).await;
        }
        loop {
            let rest = self.queue.take_ready(BATCH_MAX);
            if rest.is_empty() {
                return;
            }
            self.export(&rest).await;
        }
    }

    async fn export(&mut self, spans: &[FinishedSpan]) {
        let sent = timeout(SEND_MAX, self.send(spans)).await.unwrap_or(Err(ExportError::TimedOut));
        self.lost += self.queue.take_dropped();
        if sent.is_err() {
            self.lost += spans.len() as u64;
        }
        let is_due = self.reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY);
        if self.lost > 0 && is_due {
            let error = sent.err().map(|error| error.to_string());
            warn!(lost = self.lost, error, "spans were not exported: see {ENDPOINT_VARIABLE}");
            (self.lost, self.reported) = (0, Some(Instant::now()));
        }
    }

    async fn send(&self, spans: &[FinishedSpan]) -> Result<(), ExportError> {
        let Collector { secure, host, port, authority, target } = &self.collector;
        let body = otlp::body(spans, env!("CARGO_PKG_VERSION"), &self.instance);
        // The operator configures it: any address is allowed.
        let stream = self.connector.connect(host, *port, |_| true).await?;
        let stream = match secure {
            true => Either::Right(self.connector.connect_tls(host, stream).await?),
            false => Either::Left(stream),
        };
        let opened = Http1Connection::handshake(stream, Builder::new().max_header_size(HEAD_MAX_BYTES)).await;
        let mut connection = opened.map_err(ExchangeError::from)?;
        let request = Request::post(target.clone())
            .header(HOST, authority.clone())
            .header(CONTENT_TYPE, otlp::CONTENT_TYPE)
            .body(Full::new(Bytes::from(body)))?;
        let status = connection.send(request).await?.status();
        if status.is_success() { Ok(()) } else { Err(ExportError::Refused(status)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_parsed() {
        let table = [
            ("http://127.0.0.1:4318", Some((false, "127.0.0.1", 4318, "/v1/traces"))),
            ("http://collector/", Some((false, "collector", 80, "/v1/traces"))),
            ("https://[::1]:9/otlp/", Some((true, "::1", 9, "/otlp/v1/traces"))),
            ("grpc://127.0.0.1:4317", None),
            ("127.0.0.1:4318", None),
            ("http://user@host", None),
            ("http://", None),
        ];
        for (endpoint, expected) in table {
            let found = Collector::parse(endpoint);
            let found =
                found.as_ref().map(|one| (one.secure, one.host.as_str(), one.port, one.target.path()));
            assert_eq!(found, expected, "{endpoint}");
        }
    }
}
