//! `POST /sandboxes`: a sandbox of a template, with a timeout.

use super::{
    call::Call,
    error::E2bError,
    limits, network,
    request::{NetworkConfig, NewSandbox},
    template::{self, Template},
    view,
};
use crate::{
    ApiClient, ApiFailure,
    e2b::record::{self, AtTimeout, E2bRecord},
    respond,
};
use axum::{body::Body, response::Response};
use http_body_util::BodyExt;
use hyper::{
    Method, StatusCode,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use protocol::api::{
    ApiErrorCode, EgressRules, IdlePolicy, Network, NetworkRules, NetworkSpec, OnTtl, ProblemCode,
    SandboxSpec, SandboxView, SnapshotFork, SnapshotId, TtlChange, Visibility,
};
use serde::Serialize;
use std::time::Instant;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// A request as Slipway understands it.
struct Plan {
    template: String,
    timeout_s: u64,
    at_timeout: AtTimeout,
    /// Rules that were asked for.
    egress: Option<EgressRules>,
    visibility: Visibility,
}

struct Created {
    view: SandboxView,
    /// An earlier request with the same key created it.
    replayed: bool,
}

pub async fn create(call: &Call) -> Result<Response, E2bError> {
    let new: NewSandbox = call.json()?;
    new.check()?;
    let plan = plan(&new)?;
    let template = template::resolve(call, &plan.template).await?;
    let started = Instant::now();
    // Only the default image is certainly there.
    let is_quick = template == Template::DefaultImage && plan.timeout_s >= limits::TIMEOUT_QUICK_MIN_S;
    let margin_s = if is_quick { 0 } else { limits::LAUNCH_MARGIN_S };
    let ttl_s = plan.timeout_s.saturating_add(margin_s);
    let made = match &template {
        Template::DefaultImage => of_image(call, &new, &plan, (None, ttl_s)).await,
        Template::Image(image) => of_image(call, &new, &plan, (Some(image.clone()), ttl_s)).await,
        Template::Snapshot(snapshot) => of_snapshot(call, &new, &plan, (snapshot, ttl_s)).await,
    };
    let Created { view, replayed } = match made {
        Ok(created) => created,
        Err(failure) => return Err(explained(call, &plan, failure).await),
    };
    let is_timed = replayed || (is_quick && started.elapsed().as_millis() <= limits::LAUNCH_QUICK_MS);
    let timed = async {
        match is_timed {
            true => Ok(()),
            false => call.set_ttl(&view.id, &ttl_change(plan.timeout_s, plan.at_timeout)).await.map(drop),
        }
    };
    let (recorded, timed) =
        tokio::join!(record::insert(&call.clients, &view.id, record_of(&new, &plan)), timed);
    timed?;
    recorded?;
    Ok(respond::json(StatusCode::CREATED, &view::connected(call, &view).await?))
}

fn plan(new: &NewSandbox) -> Result<Plan, E2bError> {
    let invalid = |error: serde_json::Error| E2bError::invalid(format!("network: {error}"));
    let network = new.network.clone().filter(|network| !network.is_null());
    let config: NetworkConfig =
        network.map(serde_json::from_value).transpose().map_err(invalid)?.unwrap_or_default();
    let egress = network::egress_rules(&config, new.allow_internet_access)?;
    let at_timeout = match (new.auto_pause.unwrap_or(false), new.auto_pause_memory.unwrap_or(true)) {
        (false, _) => AtTimeout::Kill,
        (true, true) => AtTimeout::Pause,
        (true, false) => AtTimeout::PauseFiles,
    };
    let is_private = config.allow_public_traffic == Some(false);
    Ok(Plan {
        template: new
            .template
            .clone()
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| template::BASE.to_owned()),
        timeout_s: new.timeout.unwrap_or(limits::TIMEOUT_DEFAULT_S).max(1),
        at_timeout,
        egress: (!egress.is_empty()).then_some(egress),
        visibility: if is_private { Visibility::Private } else { Visibility::Public },
    })
}

fn record_of(new: &NewSandbox, plan: &Plan) -> E2bRecord {
    E2bRecord {
        template: plan.template.clone(),
        at_timeout: plan.at_timeout,
        auto_resume: new.auto_resume.as_ref().is_some_and(|resume| resume.enabled),
        allow_internet_access: new.allow_internet_access,
        network: new.network.clone().filter(|network| !network.is_null()),
        ..E2bRecord::default()
    }
}

/// Nothing for the default of the host, or of the sandbox that a snapshot was taken of.
fn network_spec(plan: &Plan) -> Option<NetworkSpec> {
    let rules = |EgressRules { allow, deny, .. }| {
        NetworkSpec::Rules(NetworkRules {
            mode: Some(Network::Proxy),
            allow,
            deny,
            ..NetworkRules::default()
        })
    };
    plan.egress.clone().map(rules)
}

async fn of_image(
    call: &Call,
    new: &NewSandbox,
    plan: &Plan,
    (image, ttl_s): (Option<String>, u64),
) -> Result<Created, ApiFailure> {
    let spec = SandboxSpec {
        image,
        env: new.env_vars.clone().unwrap_or_default(),
        metadata: new.metadata.clone().unwrap_or_default(),
        network: network_spec(plan),
        // It runs until its timeout.
        idle_policy: Some(IdlePolicy::AlwaysOn),
        visibility: Some(plan.visibility),
        ttl: Some(format!("{ttl_s}s")),
        on_ttl: Some(on_ttl(plan.at_timeout)),
        ..SandboxSpec::default()
    };
    made(call, &format!("/v1/sandboxes?wait={}s", limits::WAIT_S), &spec).await
}

async fn of_snapshot(
    call: &Call,
    new: &NewSandbox,
    plan: &Plan,
    (snapshot, ttl_s): (&SnapshotId, u64),
) -> Result<Created, ApiFailure> {
    let fork = SnapshotFork {
        env: new.env_vars.clone().unwrap_or_default(),
        metadata: new.metadata.clone().unwrap_or_default(),
        network: network_spec(plan),
        idle_policy: Some(IdlePolicy::AlwaysOn),
        visibility: Some(plan.visibility),
        ttl: Some(format!("{ttl_s}s")),
        on_ttl: Some(on_ttl(plan.at_timeout)),
        ..SnapshotFork::default()
    };
    made(call, &format!("/v1/snapshots/{snapshot}/fork?wait={}s", limits::WAIT_S), &fork).await
}

async fn made<B: Serialize>(call: &Call, path: &str, body: &B) -> Result<Created, ApiFailure> {
    let internal = |error: String| ApiFailure::new(ApiErrorCode::Internal, error);
    let mut request = ApiClient::request(Method::POST, path);
    *request.body_mut() = Body::from(serde_json::to_vec(body).map_err(|error| internal(error.to_string()))?);
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(key) = &call.idempotency_key {
        request.headers_mut().insert(IDEMPOTENCY_KEY, key.clone());
    }
    let response = call.api.send(request).await?;
    let replayed = response.headers().contains_key(REPLAYED);
    let whole = response.into_body().collect().await.map_err(|error| internal(error.to_string()))?;
    let view = serde_json::from_slice(&whole.to_bytes()).map_err(|error| internal(error.to_string()))?;
    Ok(Created { view, replayed })
}

/// The error of a create. To E2B a create that failed leaves nothing; one with a key finds it again.
async fn explained(call: &Call, plan: &Plan, failure: ApiFailure) -> E2bError {
    let detail = &failure.error.detail;
    let missing = detail.problem.as_ref().is_some_and(|problem| problem.code == ProblemCode::ImageMissing);
    let wrong = failure.error.code == ApiErrorCode::Unsupported && detail.field.as_deref() == Some("image");
    if let (Some(left), None) = (&detail.existing, &call.idempotency_key) {
        let _ = call.destroy(left).await;
    }
    match missing || wrong {
        true => {
            let why = detail.problem.as_ref().map_or(&failure.error.message, |problem| &problem.message);
            template::unknown(call, &plan.template, why).await
        }
        false => failure.into(),
    }
}

pub fn on_ttl(at_timeout: AtTimeout) -> OnTtl {
    match at_timeout {
        AtTimeout::Kill => OnTtl::Destroy,
        AtTimeout::Pause => OnTtl::Pause,
        AtTimeout::PauseFiles => OnTtl::Stop,
    }
}

pub fn ttl_change(timeout_s: u64, at_timeout: AtTimeout) -> TtlChange {
    TtlChange { ttl: Some(Some(format!("{}s", timeout_s.max(1)))), on_ttl: Some(on_ttl(at_timeout)) }
}
