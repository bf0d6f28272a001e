//! Serves proxy requests: decides, looks up, connects, and hands over to a tunnel or a forwarded request.

use super::{
    forward::{self, ForwardRequest},
    host_addresses::HostAddresses,
    metrics::{EgressMetrics, RequestOutcome},
    profiles::Profiles,
    recorder::EgressRecorder,
    refusal::ProxyRefusal,
    sandbox_egress::{SandboxEgress, SandboxEgressParts},
    server_connection::ServerConnection,
    tracked_connection::TrackedConnection,
    tunnel,
};
use axum::body::Body;
use futures_util::future::BoxFuture;
use hostd_core::{
    Previews,
    egress::{ClaimedJob, Decision, Denial, Destination, EventCounts, EventKey, Exceptions, Host},
};
use hostd_net::outbound::{OutboundConnector, OutboundError};
use hostd_store::{SandboxRecord, Store};
use hyper::{
    HeaderMap, Method, Request, Response,
    body::Incoming,
    header::{CONTENT_LENGTH, PROXY_AUTHORIZATION, TRANSFER_ENCODING},
    http::uri::Scheme,
};
use protocol::api::Network;
use std::{net::IpAddr, sync::Arc};
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, watch},
};
use tokio_util::sync::CancellationToken;

/// The egress proxy, shared by all sandboxes. Cheap to clone.
#[derive(Clone)]
pub struct Egress {
    inner: Arc<EgressInner>,
}

struct EgressInner {
    connector: OutboundConnector,
    previews: Previews,
    profiles: Profiles,
    exceptions: Arc<Exceptions>,
    host_addresses: Arc<HostAddresses>,
    recorder: EgressRecorder,
    metrics: EgressMetrics,
}

pub struct EgressParts {
    pub connector: OutboundConnector,
    pub previews: Previews,
    pub profiles: Profiles,
    pub exceptions: Exceptions,
    pub store: Store,
}

/// A response, with the tunnel that runs on the connection after it.
pub struct ProxyResponse {
    pub response: Response<Body>,
    pub tunnel: Option<BoxFuture<'static, ()>>,
}

impl From<Response<Body>> for ProxyResponse {
    fn from(response: Response<Body>) -> Self {
        Self { response, tunnel: None }
    }
}

impl Egress {
    pub fn new(parts: EgressParts) -> Self {
        let EgressParts { connector, previews, profiles, exceptions, store } = parts;
        let (exceptions, host_addresses, recorder) =
            (Arc::new(exceptions), Arc::default(), EgressRecorder::new(store));
        Self {
            inner: Arc::new(EgressInner {
                connector,
                previews,
                profiles,
                exceptions,
                host_addresses,
                recorder,
                metrics: EgressMetrics::default(),
            }),
        }
    }

    pub fn metrics(&self) -> &EgressMetrics {
        &self.inner.metrics
    }

    pub fn profiles(&self) -> &Profiles {
        &self.inner.profiles
    }

    /// Bytes that a sandbox sent and received.
    pub async fn used_bytes(&self, record: &SandboxRecord) -> Result<u64, hostd_store::StoreError> {
        self.inner.recorder.used_bytes(&record.id).await
    }

    /// Writes events and byte counts until hostd shuts down.
    pub async fn run_recorder(&self, closing: CancellationToken) {
        self.inner.recorder.run(closing).await;
    }

    /// Writes the last events, of connections that were closed at shutdown.
    pub async fn finish(&self) {
        self.inner.recorder.finish().await;
    }

    /// The egress of one sandbox, while its door is open.
    pub fn sandbox_egress(&self, record: watch::Receiver<Arc<SandboxRecord>>) -> Arc<SandboxEgress> {
        let EgressInner { profiles, exceptions, host_addresses, recorder, metrics, .. } = &*self.inner;
        let parts = SandboxEgressParts {
            profiles: profiles.clone(),
            exceptions: exceptions.clone(),
            host_addresses: host_addresses.clone(),
            recorder: recorder.clone(),
            metrics: metrics.clone(),
        };
        Arc::new(SandboxEgress::new(record, parts))
    }

    /// Answers a `CONNECT`, or a request for an absolute URL.
    pub async fn serve(
        &self,
        sandbox_egress: &Arc<SandboxEgress>,
        request: Request<Incoming>,
    ) -> ProxyResponse {
        let headers = request.headers().clone();
        let by = headers.get(PROXY_AUTHORIZATION).and_then(ClaimedJob::parse);
        let answered = match destination_of(&request) {
            Ok(destination) => {
                let context = RequestContext { sandbox_egress, destination: &destination, by };
                match *request.method() {
                    Method::CONNECT => self.tunnel(&context, request).await,
                    _ => self.forward(&context, ForwardRequest::new(request)).await.map(ProxyResponse::from),
                }
            }
            Err(refusal) => {
                sandbox_egress.record_event(
                    malformed_request_key(sandbox_egress, by, &refusal),
                    EventCounts { times: 1, ..EventCounts::default() },
                );
                Err(refusal)
            }
        };
        self.inner.metrics.requests.of(RequestOutcome::of(&answered)).inc();
        answered.unwrap_or_else(|refusal| refusal.response(&headers).into())
    }

    async fn tunnel(
        &self,
        context: &RequestContext<'_>,
        request: Request<Incoming>,
    ) -> Result<ProxyResponse, ProxyRefusal> {
        let permit = self.admit(context).await?;
        let stream = self.connect(context).await?;
        let address = stream.peer_addr().map_err(|error| context.no_response(&error))?.ip();
        Ok(tunnel::open(request, stream, context.track(address, permit)?))
    }

    /// Forwards on an idle connection if there is one and the request can be retried: its server may have
    /// closed it just now.
    async fn forward(
        &self,
        context: &RequestContext<'_>,
        mut forwarded: ForwardRequest,
    ) -> Result<Response<Body>, ProxyRefusal> {
        let mut permit = self.admit(context).await?;
        if let Some(copy) = forwarded.retry_copy()
            && let Some(connection) =
                context.sandbox_egress.pool().take(context.destination, |address| context.allows(address))
        {
            let tracked = context.track(connection.address, permit)?;
            match forward::send(forwarded, context.destination, connection, tracked).await {
                Err(ProxyRefusal::NoResponse { .. }) => {}
                response => return response,
            }
            (forwarded, permit) = (copy, context.permit()?);
        }
        let connection = ServerConnection::handshake(self.connect(context).await?)
            .await
            .map_err(|error| context.no_response(&error))?;
        let tracked = context.track(connection.address, permit)?;
        forward::send(forwarded, context.destination, Box::new(connection), tracked).await
    }

    /// Admits a request as far as that is possible before its host is looked up.
    async fn admit(&self, context: &RequestContext<'_>) -> Result<OwnedSemaphorePermit, ProxyRefusal> {
        let RequestContext { sandbox_egress, destination, .. } = context;
        let network = sandbox_egress.record().blueprint.network;
        if network != Network::Proxy {
            context.record_event("denied", "network", None);
            return Err(ProxyRefusal::NetworkMode(network));
        }
        if sandbox_egress.is_rate_limited() {
            context.record_event("denied", "rate", None);
            return Err(ProxyRefusal::RateLimited);
        }
        sandbox_egress.load().await.map_err(|_| ProxyRefusal::Internal)?;
        let policy = sandbox_egress.policy();
        if let Some(max_bytes) = sandbox_egress.exceeded_quota() {
            context.record_event("denied", "max_mb", None);
            return Err(ProxyRefusal::QuotaExceeded { max_bytes });
        }
        if let Some(denial) = self.preview(destination).or_else(|| policy.precheck(destination)) {
            return Err(context.denied(denial));
        }
        context.permit()
    }

    async fn connect(&self, context: &RequestContext<'_>) -> Result<TcpStream, ProxyRefusal> {
        let RequestContext { sandbox_egress, destination, .. } = context;
        let host = match &destination.host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        };
        let error = match self
            .inner
            .connector
            .connect(&host, destination.port, |address| context.allows(address))
            .await
        {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        if let OutboundError::NotAllowed { address, .. } = &error
            && let Decision::Denied(denial) = sandbox_egress.decide(destination, *address)
        {
            return Err(context.denied(denial));
        }
        let mut key = context.key("allowed", "unreachable");
        key.error = Some(error.to_string());
        sandbox_egress.record_event(key, EventCounts { times: 1, ..EventCounts::default() });
        Err(ProxyRefusal::Unreachable(error))
    }

    fn preview(&self, destination: &Destination) -> Option<Denial> {
        let preview = self.inner.previews.parse(&destination.host.to_string())?;
        Some(Denial::Preview { port: preview.port })
    }
}

/// A request being served: its sandbox, its destination, and the job that claims it.
struct RequestContext<'a> {
    sandbox_egress: &'a Arc<SandboxEgress>,
    destination: &'a Destination,
    by: Option<ClaimedJob>,
}

impl RequestContext<'_> {
    fn allows(&self, address: IpAddr) -> bool {
        matches!(self.sandbox_egress.decide(self.destination, address), Decision::Allowed(_))
    }

    fn permit(&self) -> Result<OwnedSemaphorePermit, ProxyRefusal> {
        self.sandbox_egress.permit().ok_or_else(|| {
            self.record_event("denied", "connections", None);
            ProxyRefusal::TooManyConnections
        })
    }

    /// Starts to track a connection to this address. Decides once more, since connecting took a while.
    fn track(
        &self,
        address: IpAddr,
        permit: OwnedSemaphorePermit,
    ) -> Result<Arc<TrackedConnection>, ProxyRefusal> {
        let rule = match self.sandbox_egress.decide(self.destination, address) {
            Decision::Allowed(rule) => rule,
            Decision::Denied(denial) => return Err(self.denied(denial)),
        };
        let key = self.key("allowed", &rule);
        self.sandbox_egress.record_event(
            key.clone(),
            EventCounts { times: 1, address: Some(address), ..EventCounts::default() },
        );
        Ok(TrackedConnection::new(
            self.sandbox_egress.clone(),
            self.destination.clone(),
            address,
            key,
            permit,
        ))
    }

    fn key(&self, verdict: &'static str, rule: &str) -> EventKey {
        EventKey {
            sandbox: self.sandbox_egress.id(),
            verdict,
            host: self.destination.host.to_string(),
            port: self.destination.port,
            rule: rule.to_owned(),
            profile: None,
            by: self.by.clone(),
            error: None,
        }
    }

    fn record_event(&self, verdict: &'static str, rule: &str, denial: Option<&Denial>) {
        let profile = denial.and_then(Denial::profile).map(str::to_owned);
        let address = denial.and_then(|denial| denial.address(self.destination));
        let key = EventKey { profile, ..self.key(verdict, rule) };
        self.sandbox_egress.record_event(key, EventCounts { times: 1, address, ..EventCounts::default() });
    }

    fn denied(&self, denial: Denial) -> ProxyRefusal {
        self.record_event("denied", &denial.rule(), Some(&denial));
        ProxyRefusal::Denied { destination: self.destination.clone(), denial }
    }

    fn no_response(&self, why: &dyn ToString) -> ProxyRefusal {
        ProxyRefusal::NoResponse { destination: self.destination.clone(), why: why.to_string() }
    }
}

/// The event key of a request whose destination cannot be read.
fn malformed_request_key(
    sandbox_egress: &SandboxEgress,
    by: Option<ClaimedJob>,
    refusal: &ProxyRefusal,
) -> EventKey {
    EventKey {
        sandbox: sandbox_egress.id(),
        verdict: "denied",
        host: String::new(),
        port: 0,
        rule: "malformed".to_owned(),
        profile: None,
        by,
        error: Some(refusal.message()),
    }
}

/// The destination of a request, by its request line.
fn destination_of(request: &Request<Incoming>) -> Result<Destination, ProxyRefusal> {
    let no_host = ProxyRefusal::Malformed("the request names no valid host");
    let uri = request.uri();
    let authority = uri.authority().ok_or(ProxyRefusal::Malformed("the request names no host"))?.as_str();
    if request.method() == Method::CONNECT {
        return Destination::parse(authority, None).map_err(|_| no_host);
    }
    if uri.scheme() != Some(&Scheme::HTTP) {
        return Err(ProxyRefusal::Malformed("only http:// is forwarded; use CONNECT for others"));
    }
    if has_two_lengths(request.headers()) {
        return Err(ProxyRefusal::Malformed("the request gives the length of its body twice"));
    }
    Destination::parse(authority, Some(80)).map_err(|_| no_host)
}

fn has_two_lengths(headers: &HeaderMap) -> bool {
    let count = |name| headers.get_all(name).iter().count();
    count(CONTENT_LENGTH) + count(TRANSFER_ENCODING) > 1
}
