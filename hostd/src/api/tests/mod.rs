//! The API over a fleet with an in-memory driver: no sandbox runs anything, but the whole pipeline does.

mod agents;
mod audit;
mod calls;
mod constraints;
mod document;
mod metrics;
mod models;
mod preview_links;
mod refusals;
mod sse;

use super::{Api, ApiParts, Auth, ImageBackend, Settings, front, peer::Peer, token_hash};
use crate::{
    agents::Agents,
    backup::BackupSettings,
    inside::InsideServer,
    reconcile::{Fleet, FleetParts, Timing, tests::fixture},
    webhooks::{EndpointClient, WebhookParts, Webhooks},
};
use axum::{Router, body::Body};
use bytes::Bytes;
use hostd_clients::{ClientKey, Protocol};
use hostd_core::{BudgetBounds, Defaults, FileLinkSigner, PassSigner, Previews, Scheme, egress::Exceptions};
use hostd_drivers::{Drivers, fake::FakeDriver};
use hostd_edge::{EdgeMetrics, PreviewTargets, preview_links::PreviewLinks};
use hostd_models::Models;
use hostd_net::outbound::OutboundConnector;
use hostd_store::{Clock, Store};
use http_body_util::BodyExt;
use hyper::{HeaderMap, Method, Request};
use protocol::api::{ApiErrorBody, TokenScope, Visibility};
use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const ADMIN: &str = "slw_admin";

struct ApiFixture {
    router: Router,
    api: Arc<Api>,
    closing: CancellationToken,
    _dir: TempDir,
}

struct TestResponse {
    status: u16,
    headers: HeaderMap,
    bytes: Bytes,
}

impl TestResponse {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {:?}", self.bytes))
    }

    /// The code of an error; every error is JSON.
    fn code(&self) -> String {
        let body: ApiErrorBody = serde_json::from_slice(&self.bytes).expect("every error is JSON");
        assert_eq!(self.status, body.error.code.http_status());
        assert_eq!(body.error.retryable, body.error.code.retryable());
        self.json()["error"]["code"].as_str().expect("a code").to_owned()
    }

    fn field(&self) -> String {
        self.json()["error"]["detail"]["field"].as_str().unwrap_or_default().to_owned()
    }
}

/// A request under construction.
struct TestRequest {
    inner: Request<Body>,
}

impl TestRequest {
    fn new(method: Method, path: &str) -> Self {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("a path");
        let local = "127.0.0.1:9090".parse().expect("an address");
        request.extensions_mut().insert(Peer::Tcp {
            from: "127.0.0.1:5555".parse().expect("an address"),
            local,
            encrypted: false,
        });
        Self { inner: request }
            .with("host", "localhost:9090")
            .with("authorization", &format!("Bearer {ADMIN}"))
    }

    fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    fn post(path: &str, body: impl Into<Body>) -> Self {
        let mut request = Self::new(Method::POST, path);
        *request.inner.body_mut() = body.into();
        request
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.inner.headers_mut().insert(name, value.parse().expect("a value"));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.inner.headers_mut().remove(name);
        self
    }

    fn token(self, token: &str) -> Self {
        self.with("authorization", &format!("Bearer {token}"))
    }

    fn peer(mut self, peer: Peer) -> Self {
        self.inner.extensions_mut().insert(peer);
        self
    }
}

fn defaults() -> Defaults {
    Defaults {
        driver: "fake".into(),
        image: "host".into(),
        memory_max_mb: 8192,
        cpus_max: 2.0,
        pids_max: 4096,
        network: protocol::api::Network::Proxy,
    }
}

fn settings(auth: Auth, previews: Previews, links: PreviewLinks, dir: &TempDir) -> Settings {
    Settings {
        admin_hash: token_hash(ADMIN),
        auth,
        names: vec!["slipway.example".into()],
        bind: "127.0.0.1:9090".parse().expect("an address"),
        encrypted: false,
        certificates: Vec::new(),
        previews,
        instance: "test".into(),
        data_dir: dir.path().to_owned(),
        images: ImageBackend::Absent,
        links,
        file_links: FileLinkSigner::new(&[7; 32]),
        protocols: Protocol::ALL.into(),
        client_key: ClientKey::new(&[7; 32]),
        files_in_sandbox: false,
        metrics_sandboxes: 1,
        tracer: None,
        backup: BackupSettings::default(),
    }
}

/// Webhooks that nothing is delivered to.
fn webhooks(store: &Store, clock: Clock, dir: &TempDir) -> Webhooks {
    Webhooks::new(WebhookParts {
        store: store.clone(),
        clock,
        data_dir: dir.path().to_owned(),
        client: EndpointClient::new(OutboundConnector::from_host_config(), Exceptions::default()),
        attempts_max: 2,
    })
}

impl ApiFixture {
    async fn new() -> Self {
        Self::with_auth(Auth::Required).await
    }

    async fn with_auth(auth: Auth) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(&dir.path().join("slipway.db")).expect("a store");
        let drivers = Drivers::new(vec![Arc::new(FakeDriver::default())]);
        let previews = Previews {
            domain: "localhost".into(),
            scheme: Scheme::Http,
            port: 8080,
            visibility: Visibility::Private,
        };
        let models =
            Models::load(store.clone(), dir.path(), BudgetBounds::default()).await.expect("nothing is there");
        let (gateway, egress) = fixture::gateway_and_egress(&previews, &store, &models).await;
        let git = fixture::git_gateway(&store, dir.path());
        let inside = InsideServer::new(previews.clone(), gateway.clone(), git.clone(), egress.clone());
        let links = PreviewLinks::new(store.clone(), PassSigner::new(&[7; 32], previews.clone()));
        let (timing, agents) = (Timing::default(), Agents::default());
        let (disk, clock) = (fixture::endless(dir.path()), Clock::new());
        let parts = FleetParts {
            memory: hostd_drivers::host_memory::HostMemory::plenty(),
            store: store.clone(),
            drivers: drivers.clone(),
            timing,
            inside,
            models: models.clone(),
            agents: agents.clone(),
            disk: disk.clone(),
            targets: PreviewTargets::default(),
            snapshot_retention: hostd_store::SnapshotRetention::default(),
            clock,
        };
        let fleet = Fleet::open(parts).await.expect("a fleet");
        let settings = settings(auth, previews, links, &dir);
        let webhooks = webhooks(&store, clock, &dir);
        let closing = CancellationToken::new();
        let parts = ApiParts {
            fleet,
            store,
            drivers,
            defaults: defaults(),
            agents,
            models,
            gateway,
            git,
            egress,
            webhooks,
            disk,
            clock,
            edge_metrics: EdgeMetrics::default(),
            settings,
        };
        let api = Api::new(parts, closing.clone());
        Self { router: front(api.clone()).router, api, closing, _dir: dir }
    }

    /// Sends a request, and leaves the body of its response unread.
    async fn open(&self, request: TestRequest) -> hyper::Response<Body> {
        self.router.clone().oneshot(request.inner).await.expect("infallible")
    }

    async fn send(&self, request: TestRequest) -> TestResponse {
        let response = self.open(request).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        assert!(parts.headers.contains_key("x-request-id"), "every answer has an id");
        TestResponse { status: parts.status.as_u16(), headers: parts.headers, bytes }
    }

    async fn get(&self, path: &str) -> TestResponse {
        self.send(TestRequest::get(path)).await
    }

    async fn post(&self, path: &str, body: Value) -> TestResponse {
        self.send(TestRequest::post(path, body.to_string())).await
    }

    /// Creates a token.
    async fn token(&self, tenant: &str, principal: &str, scope: TokenScope) -> String {
        let body = json!({"tenant": tenant, "principal": principal, "scope": scope});
        let reply = self.post("/v1/tokens", body).await;
        assert_eq!(reply.status, 201, "{:?}", reply.bytes);
        reply.json()["token"].as_str().expect("a token").to_owned()
    }

    /// Creates a sandbox that runs, and returns its id.
    async fn sandbox(&self) -> String {
        let reply = self.post("/v1/sandboxes", json!({})).await;
        assert_eq!(reply.status, 201, "{:?}", reply.bytes);
        reply.json()["id"].as_str().expect("an id").to_owned()
    }
}
