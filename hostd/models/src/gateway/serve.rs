//! Serves a model call from request to response: authenticates, admits, forwards with retries, records.

use super::{
    authorizer::{Authorizer, TaskGrant},
    base_url::BaseUrl,
    call_limits::{BodyPermit, CallLimits, CallPermit},
    call_record::CallRecord,
    cancel_with_task::TaskEnded,
    collect_body::collect_body,
    connection_pool::ProviderConnectionPool,
    dialect::{json_response, rules},
    headers::{is_uncompressed, request_headers, response_headers},
    limits::{PARSE_INLINE_MAX_BYTES, ProviderTimeouts, REFUSAL_DELAY_MS},
    metrics::{CallMeter, GatewayMetrics},
    model_request::ModelRequest,
    provider_client::{ProviderClient, ProviderRequest, ProviderResponse},
    refusal::GatewayRefusal,
    response_relay::ResponseRelay,
    retry::{CallStart, RetryOutcome, send_with_retries},
    route::{Endpoint, Route, RouteError, route},
    task_key::{forwarded_query, presented_key},
};
use crate::{ActiveBudgets, CallRefusal, CallTarget, Dialect, Models};
use axum::body::Body;
use bytes::Bytes;
use hostd_net::outbound::OutboundConnector;
use hyper::{Request, Response, StatusCode, body::Incoming, http::request};
use protocol::api::SandboxId;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

/// The gateway, shared by all calls. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<GatewayInner>,
}

struct GatewayInner {
    authorizer: Arc<dyn Authorizer>,
    client: ProviderClient,
    limits: CallLimits,
    timeouts: ProviderTimeouts,
    /// Tasks that record the end of a call whose agent does not wait for it.
    tracker: TaskTracker,
    metrics: GatewayMetrics,
}

impl Gateway {
    pub fn new(models: Models, connector: OutboundConnector) -> Self {
        Self::with_authorizer(Arc::new(models), connector, ProviderTimeouts::default())
    }

    /// Sets how long a provider may send nothing in the middle of a response.
    pub fn with_idle(self, idle: Duration) -> Self {
        let Self { inner } = self;
        let timeouts = ProviderTimeouts { idle, ..inner.timeouts };
        Self::with_authorizer(inner.authorizer.clone(), inner.client.connector.clone(), timeouts)
    }

    pub(super) fn with_authorizer(
        authorizer: Arc<dyn Authorizer>,
        connector: OutboundConnector,
        timeouts: ProviderTimeouts,
    ) -> Self {
        let pool = ProviderConnectionPool::default();
        let client = ProviderClient { connector, pool, first_byte_max: timeouts.first_byte };
        let (limits, tracker, metrics) =
            (CallLimits::default(), TaskTracker::new(), GatewayMetrics::default());
        Self { inner: Arc::new(GatewayInner { authorizer, client, limits, timeouts, tracker, metrics }) }
    }

    pub fn metrics(&self) -> &GatewayMetrics {
        &self.inner.metrics
    }

    pub(super) fn client(&self) -> &ProviderClient {
        &self.inner.client
    }

    /// Answers a request below `/model/` that came through the door of this sandbox.
    pub async fn serve(&self, sandbox: SandboxId, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let within_rate = self.inner.limits.take_local_response(&sandbox);
        let (dialect, response) = match route(&head.method, head.uri.path()) {
            Ok(found) if !within_rate => (found.dialect(), Err(GatewayRefusal::TooMany)),
            Ok(Route::Hello(_)) => return Response::new(Body::empty()),
            Ok(Route::Models(dialect)) => (dialect, self.task_models(sandbox, &head, dialect)),
            Ok(Route::Call(endpoint)) => {
                (endpoint.api.dialect(), Box::pin(self.call(sandbox, endpoint, head, body)).await)
            }
            Err(error @ (RouteError::UnknownPath(dialect) | RouteError::WrongMethod(dialect, _))) => {
                (dialect, Err(error.into()))
            }
        };
        match response {
            Ok(response) => response,
            Err(refusal) => {
                sleep(Duration::from_millis(REFUSAL_DELAY_MS)).await;
                refusal.response(dialect)
            }
        }
    }

    fn authenticate(
        &self,
        sandbox: SandboxId,
        head: &request::Parts,
    ) -> Result<Arc<dyn TaskGrant>, GatewayRefusal> {
        let key = presented_key(&head.headers, head.uri.query()).ok_or(GatewayRefusal::Key)?;
        self.inner.authorizer.authenticate(&sandbox, key).ok_or(GatewayRefusal::Key)
    }

    /// Lists the models of the task only: it must not learn what else its provider has.
    fn task_models(
        &self,
        sandbox: SandboxId,
        head: &request::Parts,
        dialect: Dialect,
    ) -> Result<Response<Body>, GatewayRefusal> {
        let names = self.authenticate(sandbox, head)?.models(dialect);
        Ok(json_response(StatusCode::OK, &rules(dialect).task_models(&names)))
    }

    async fn call(
        &self,
        sandbox: SandboxId,
        endpoint: Endpoint,
        head: request::Parts,
        body: Incoming,
    ) -> Result<Response<Body>, GatewayRefusal> {
        let meter = self.inner.metrics.meter(endpoint.api.dialect());
        let grant = self.authenticate(sandbox, &head)?;
        grant.wait_until_started().await?;
        let count_only = endpoint.count_only();
        let response = self.admit_and_forward(&*grant, sandbox, (endpoint, head, body, meter)).await;
        let rejected = response.as_ref().err().and_then(|refusal| refusal.rejected_call(count_only));
        if let Some(rejected) = rejected {
            grant.record_rejected(rejected).await;
        }
        response
    }

    async fn admit_and_forward(
        &self,
        grant: &dyn TaskGrant,
        sandbox: SandboxId,
        (endpoint, head, body, mut meter): (Endpoint, request::Parts, Incoming, CallMeter),
    ) -> Result<Response<Body>, GatewayRefusal> {
        let permit = self.inner.limits.acquire(&sandbox)?;
        if !is_uncompressed(&head.headers) {
            return Err(GatewayRefusal::Encoding);
        }
        let mut body_permit = permit.body_permit();
        let body = collect_body(body, &mut body_permit).await?;
        // The permit of the body is held until the response has begun.
        let (request, (permit, _body_permit)) =
            parse(&endpoint, &body, grant.bounded(), (permit, body_permit)).await?;
        let call_target = Arc::new(grant.call_target(endpoint.api.dialect(), &request.model)?);
        let call = grant.begin(&call_target, request.params).await?;
        let task_ended = call.task_ended();
        let body = request.rewrite(body, &call_target.model, call.max_output_tokens());
        meter.admitted(&call_target, body.len());
        let mut record = CallRecord {
            call: Some(call),
            call_target: call_target.clone(),
            api: endpoint.api,
            count_only: request.params.count_only,
            input_tokens: request.params.input_tokens,
            started: Instant::now(),
            attempt: 1,
            gave_up: false,
            status: None,
            first_byte_ms: None,
            meter,
            tracker: self.inner.tracker.clone(),
        };
        match provider_request(&endpoint, &call_target, &head, body) {
            Ok(request) => {
                let mut response = tokio::select! {
                    response = self.forward(&request, record, permit) => response,
                    // Dropping the call records it as abandoned.
                    () = task_ended.cancelled() => return Err(CallRefusal::Ended.into()),
                };
                self.inner.limits.refund_local_response(&sandbox);
                response.extensions_mut().insert(TaskEnded(task_ended));
                Ok(response)
            }
            Err(why) => {
                let message = format!("the provider {}: {why}", call_target.provider.name);
                let fault = record.fault(&message, true);
                if let Some(report) = record.end(Err(fault), None, false) {
                    report.await;
                }
                Err(GatewayRefusal::Provider(message))
            }
        }
    }

    async fn forward(
        &self,
        request: &ProviderRequest,
        mut record: CallRecord,
        permit: CallPermit,
    ) -> Response<Body> {
        let GatewayInner { client, timeouts, .. } = &*self.inner;
        let call_target = record.call_target.clone();
        let key = call_target.provider.key.as_ref().map(|key| key.0.as_str());
        let outcome = send_with_retries(client, request, &record, &timeouts.backoff).await;
        let RetryOutcome { start, attempts, gave_up } = outcome;
        record.attempt = attempts;
        record.gave_up = gave_up;
        match start {
            CallStart::Responding(response) => {
                record.first_byte_ms = Some(record.elapsed_ms());
                record.status = Some(response.head.status.as_u16());
                relay(*response, record, timeouts.idle, permit)
            }
            CallStart::Failed(failure, fault) => {
                record.status = fault.status;
                let response = failure.response(record.api.dialect(), key);
                if let Some(report) = record.end(Err(fault), None, false) {
                    report.await;
                }
                response
            }
        }
    }
}

/// Parses a request body, a long one on a blocking thread. The permits travel with it: the body is parsed to
/// its end and held in memory even when the agent has disconnected.
pub(super) async fn parse(
    endpoint: &Endpoint,
    body: &Bytes,
    bounded: ActiveBudgets,
    permits: (CallPermit, BodyPermit),
) -> Result<(ModelRequest, (CallPermit, BodyPermit)), GatewayRefusal> {
    if body.len() <= PARSE_INLINE_MAX_BYTES {
        return Ok((endpoint.api.rules().parse_request(endpoint, body, bounded)?, permits));
    }
    let (endpoint, body, thread_permit) =
        (endpoint.clone(), body.clone(), permits.0.parse_thread_permit().await?);
    let parse = move || {
        let request = endpoint.api.rules().parse_request(&endpoint, &body, bounded);
        // The body is freed before its permit is released.
        drop((body, thread_permit));
        (request, permits)
    };
    // Joining fails only while hostd shuts down.
    let (request, permits) =
        tokio::task::spawn_blocking(parse).await.map_err(|_| GatewayRefusal::BodyTimeout)?;
    Ok((request?, permits))
}

fn provider_request(
    endpoint: &Endpoint,
    call_target: &CallTarget,
    head: &request::Parts,
    body: Bytes,
) -> Result<ProviderRequest, String> {
    let provider = &call_target.provider;
    let base = BaseUrl::parse(&provider.base_url).map_err(|error| error.to_string())?;
    let query = forwarded_query(head.uri.query());
    let target =
        base.target(&endpoint.path(&call_target.model), &query).map_err(|error| error.to_string())?;
    let headers = request_headers(&head.headers, &base.host, provider).map_err(|error| error.to_string())?;
    let provider = provider.name.clone();
    Ok(ProviderRequest { provider, origin: base.origin, target, headers, body, api: endpoint.api })
}

/// Relays a response without its content length: its end must reach the agent only when the outcome is known,
/// and recorded where it is a failure.
fn relay(
    response: ProviderResponse,
    record: CallRecord,
    idle: Duration,
    permit: CallPermit,
) -> Response<Body> {
    let (status, headers) = (response.head.status, response_headers(&response.head.headers, record.key()));
    let mut relayed = Response::new(Body::new(ResponseRelay::new(response, record, idle, permit)));
    *relayed.status_mut() = status;
    *relayed.headers_mut() = headers;
    relayed
}
