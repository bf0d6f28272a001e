//! Which sandbox a request is for, and whether its caller may use it.

use super::{http_error, http_error::HttpError, sandbox_api::SandboxApi};
use crate::{
    ApiClient, Clients, Credential,
    e2b::{envd_token, record, traffic_token},
    select::{CODE_INTERPRETER_PORT, E2B_KEY, E2B_SANDBOX_ID, E2B_SANDBOX_TOKEN, ENVD_PORT},
};
use axum::{body::Body, response::Response};
use hostd_core::{Goal, Identity};
use hostd_store::SandboxRecord;
use hyper::{HeaderMap, Request, header::HOST, header::HeaderName};
use protocol::api::{SandboxId, SandboxStatus, TokenScope};

const SANDBOX_PORT: HeaderName = HeaderName::from_static("e2b-sandbox-port");

/// The port of a sandbox that a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// As the client wrote it: it may be no id of ours.
    pub sandbox: String,
    pub port: u16,
}

impl Target {
    /// Reads the headers, else the hostname `<port>-<id>.<domain>`.
    pub fn of<B>(request: &Request<B>) -> Option<Self> {
        let headers = request.headers();
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(sandbox) = text(&E2B_SANDBOX_ID) {
            let port = text(&SANDBOX_PORT).map_or(Some(ENVD_PORT), |port| port.trim().parse().ok())?;
            return Some(Self { sandbox: sandbox.to_owned(), port });
        }
        let host = text(&HOST).or_else(|| request.uri().authority().map(|authority| authority.as_str()))?;
        let (port, sandbox) = host.split_once('.')?.0.split_once('-')?;
        Some(Self { sandbox: sandbox.to_owned(), port: port.parse().ok()? })
    }

    /// Whether the code interpreter is asked, not envd.
    pub fn is_interpreter(&self) -> bool {
        self.port == CODE_INTERPRETER_PORT
    }
}

/// A sandbox that the request may use.
pub struct Authorized {
    pub api: SandboxApi,
    pub record: SandboxRecord,
    /// Whether the credential is only known to be one of the API: the API decides what it may do.
    by_key: bool,
}

impl Authorized {
    /// Checks a key of the API, also for what needs no further call.
    pub async fn check_key(&self) -> Result<(), HttpError> {
        if self.by_key {
            let _: serde::de::IgnoredAny = self.api.get("").await?;
        }
        Ok(())
    }
}

/// The sandbox of a request, whether or not it may be used.
pub struct Found {
    pub record: SandboxRecord,
    /// Of its tokens, those of this generation are valid.
    pub generation: u64,
}

/// Looks up a sandbox that runs, or that sleeps without its client's wish. `Err` is the answer where there is none.
pub async fn find(clients: &Clients, sandbox: &str) -> Result<Found, Box<Response>> {
    let gone = || Box::new(http_error::sandbox_gone(sandbox));
    let id: SandboxId = sandbox.parse().map_err(|_| gone())?;
    let record = clients.parts.store.sandbox(&id).await.ok().flatten().ok_or_else(gone)?;
    if !is_reachable(&record) {
        return Err(gone());
    }
    Ok(Found { generation: record::generation(clients, &id).await, record })
}

/// Whether the sandbox is there for its clients. One that was paused or stopped is gone until they connect to it again; one
/// that hostd put to sleep, or evicted, wakes with the call.
fn is_reachable(record: &SandboxRecord) -> bool {
    let state = &record.state;
    match state.status {
        SandboxStatus::Error | SandboxStatus::Destroyed => false,
        SandboxStatus::Creating | SandboxStatus::Running | SandboxStatus::Paused | SandboxStatus::Stopped => {
            match state.goal {
                Goal::Running => true,
                Goal::Paused => state.dozing,
                Goal::Stopped => state.evicted().is_some(),
                Goal::Destroyed => false,
            }
        }
    }
}

/// Checks the credential of the request.
pub fn authorize(clients: &Clients, request: &Request<Body>, found: Found) -> Result<Authorized, HttpError> {
    let Found { record, generation } = found;
    let credential = match presented(request.headers()) {
        Presented::SandboxToken(token)
            if envd_token::verify(&clients.parts.key, &record.id, generation, &token) =>
        {
            owner_of(&record)
        }
        Presented::SandboxToken(_) => {
            return Err(HttpError::unauthorized(
                "unauthorized access, the access token is not valid for this sandbox",
            ));
        }
        Presented::ApiKey(key) => Credential::Token(key),
        Presented::Nothing => {
            return Err(HttpError::unauthorized(
                "unauthorized access, send X-Access-Token with the access token of the sandbox",
            ));
        }
    };
    Ok(with(clients, request, record, credential))
}

/// Checks the credential of a request for the code interpreter: its SDKs send the token of previews with some calls, and no
/// other.
pub fn authorize_interpreter(
    clients: &Clients,
    request: &Request<Body>,
    found: Found,
) -> Result<Authorized, HttpError> {
    let has_token = request.headers().contains_key(E2B_SANDBOX_TOKEN);
    if !has_token && traffic_token::opens(&clients.parts.key, &found.record.id, request.headers()) {
        return Ok(authorized_otherwise(clients, request, found));
    }
    authorize(clients, request, found)
}

/// The sandbox, for a request that proved another way that it may use it.
pub fn authorized_otherwise(clients: &Clients, request: &Request<Body>, found: Found) -> Authorized {
    let credential = owner_of(&found.record);
    with(clients, request, found.record, credential)
}

fn with(
    clients: &Clients,
    request: &Request<Body>,
    record: SandboxRecord,
    credential: Credential,
) -> Authorized {
    let by_key = matches!(credential, Credential::Token(_));
    let client = ApiClient::of(clients.parts.api.clone(), request, credential);
    Authorized { api: SandboxApi::new(client, record.id), record, by_key }
}

enum Presented {
    SandboxToken(String),
    ApiKey(String),
    Nothing,
}

fn presented(headers: &HeaderMap) -> Presented {
    let text = |name: &HeaderName| {
        headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    match (text(&E2B_SANDBOX_TOKEN), text(&E2B_KEY)) {
        (Some(token), _) => Presented::SandboxToken(token),
        (None, Some(key)) => Presented::ApiKey(key),
        (None, None) => Presented::Nothing,
    }
}

/// Acts as the owner of the sandbox, on this sandbox only.
fn owner_of(record: &SandboxRecord) -> Credential {
    let identity = Identity {
        tenant: record.owner.tenant.clone(),
        principal: record.owner.principal.clone(),
        scope: TokenScope::Run,
        operator: false,
        via: format!("e2b:{}", record.id),
        expires_ms: None,
    };
    Credential::OnSandbox(Box::new(identity), record.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Headers<'a> = [(&'a str, &'a str)];

    #[test]
    fn a_target_is_named_by_headers_or_by_the_host() {
        let target = |sandbox: &str, port| Some(Target { sandbox: sandbox.to_owned(), port });
        let table: &[(&Headers<'_>, Option<Target>)] = &[
            (&[("e2b-sandbox-id", "a"), ("host", "api.test:1")], target("a", 49983)),
            (&[("e2b-sandbox-id", "a"), ("e2b-sandbox-port", "49999")], target("a", 49999)),
            (&[("e2b-sandbox-id", "a"), ("e2b-sandbox-port", "x")], None),
            (&[("host", "49983-b.example.com:8080")], target("b", 49983)),
            (&[("host", "example.com")], None),
            (&[], None),
        ];
        for (headers, expected) in table {
            let mut request = Request::builder().uri("/files");
            for (name, value) in *headers {
                request = request.header(*name, *value);
            }
            assert_eq!(Target::of(&request.body(()).expect("a request")), *expected, "{headers:?}");
        }
    }
}
