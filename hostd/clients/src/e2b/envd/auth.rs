//! Which sandbox a request is for, and whether its caller may use it.

use super::{files::SignatureError, http_error, http_error::HttpError, sandbox_api::SandboxApi};
use crate::{
    ApiClient, Clients, Credential,
    e2b::{envd_token, interpreter, record, record::E2bRecord, traffic_token},
    select::{CODE_INTERPRETER_PORT, E2B_KEY, E2B_SANDBOX_ID, E2B_SANDBOX_TOKEN, ENVD_PORT},
    token_holder::TokenHolder,
};
use axum::response::Response;
use hostd_core::Goal;
use hostd_store::{SandboxRecord, StoreError};
use hyper::{
    HeaderMap, Request, StatusCode,
    header::{HOST, HeaderName},
    http::request::Parts,
};
use protocol::api::{SandboxId, SandboxStatus};
use tracing::error;

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
    pub e2b: E2bRecord,
}

/// Looks up a sandbox that runs, or that sleeps without its client's wish. `Err` is the answer where there is none.
pub async fn find(clients: &Clients, sandbox: &str) -> Result<Found, Box<Response>> {
    let gone = || Box::new(http_error::sandbox_gone(sandbox));
    let failed = |error: StoreError| Box::new(unreadable(&error).respond());
    let id: SandboxId = sandbox.parse().map_err(|_| gone())?;
    let record = clients.parts.store.sandbox(&id).await.map_err(failed)?.ok_or_else(gone)?;
    if !is_reachable(&record) {
        return Err(gone());
    }
    Ok(Found { e2b: record::load(clients, &id).await.map_err(failed)?, record })
}

/// The sandbox may well be there.
fn unreadable(error: &StoreError) -> HttpError {
    error!(%error, "a sandbox or its token cannot be read");
    HttpError::new(StatusCode::SERVICE_UNAVAILABLE, "the sandbox cannot be looked up now; try again")
}

/// Whether the sandbox is there for its clients. One that was paused or stopped is gone until they connect to it again; one
/// that hostd put to sleep, or evicted, wakes with the call.
fn is_reachable(record: &SandboxRecord) -> bool {
    let state = &record.state;
    match state.status {
        SandboxStatus::Error | SandboxStatus::Destroyed => false,
        SandboxStatus::Creating | SandboxStatus::Running | SandboxStatus::Paused | SandboxStatus::Stopped => {
            state.goal != Goal::Destroyed && !state.is_put_down()
        }
    }
}

/// Checks the credential of the request.
pub async fn authorize(clients: &Clients, request: &Parts, found: Found) -> Result<Authorized, HttpError> {
    let record = &found.record;
    let credential = match presented(&request.headers) {
        Presented::SandboxToken(token) => {
            let key = &clients.parts.key;
            let holder = envd_token::verified(key, &record.id, &found.e2b, &token);
            let holder = holder.ok_or_else(|| {
                HttpError::unauthorized("unauthorized access, the access token is not valid for this sandbox")
            })?;
            held_by(clients, record, &holder, envd_token::PURPOSE).await?
        }
        Presented::ApiKey(key) => Credential::Token(key),
        Presented::Nothing => {
            return Err(HttpError::unauthorized(
                "unauthorized access, send X-Access-Token with the access token of the sandbox",
            ));
        }
    };
    Ok(with(clients, request, found.record, credential))
}

/// Checks the credential of a request for the code interpreter: with calls about contexts its SDKs send the token of
/// previews, and no other. Code needs what commands need.
pub async fn authorize_interpreter(
    clients: &Clients,
    request: &Parts,
    found: Found,
) -> Result<Authorized, HttpError> {
    let headers = &request.headers;
    let by_previews = match presented(headers) {
        Presented::Nothing if !interpreter::runs_code(&request.method, request.uri.path()) => {
            traffic_token::holder(&clients.parts.key, &found.record.id, headers)
        }
        Presented::Nothing | Presented::SandboxToken(_) | Presented::ApiKey(_) => None,
    };
    match by_previews {
        Some(holder) => {
            let credential = held_by(clients, &found.record, &holder, traffic_token::PURPOSE).await?;
            Ok(with(clients, request, found.record, credential))
        }
        None => authorize(clients, request, found).await,
    }
}

/// Checks the signature of a URL, which was made with the token of one of its holders.
pub async fn authorize_signed(
    clients: &Clients,
    request: &Parts,
    found: Found,
    check: impl Fn(&str) -> Result<(), SignatureError>,
) -> Result<Authorized, HttpError> {
    if request.headers.contains_key(E2B_KEY) {
        return Err(HttpError::bad_request("the request has a signature and X-API-KEY; send one"));
    }
    let Found { record, e2b } = found;
    let mut checked = Err(SignatureError::Invalid);
    // The owner's token is known without having been handed out.
    let owner = std::iter::once(TokenHolder::Owner);
    for holder in owner.chain(e2b.holders.iter().rev().map(|known| known.holder.clone())) {
        checked = check(&envd_token::mint(&clients.parts.key, &record.id, &e2b, &holder));
        match checked {
            Ok(()) => {
                let credential = held_by(clients, &record, &holder, envd_token::PURPOSE).await?;
                return Ok(with(clients, request, record, credential));
            }
            Err(SignatureError::Expired) => break,
            Err(SignatureError::Invalid) => {}
        }
    }
    let error = checked.err().unwrap_or(SignatureError::Invalid);
    Err(HttpError::unauthorized(error.to_string()))
}

/// Acts as the holder of a token, on this sandbox only.
async fn held_by(
    clients: &Clients,
    record: &SandboxRecord,
    holder: &TokenHolder,
    purpose: &str,
) -> Result<Credential, HttpError> {
    let identity = holder.identity(clients, &record.id, purpose).await;
    let identity = identity.map_err(|error| unreadable(&error))?.ok_or_else(|| {
        HttpError::unauthorized("unauthorized access, the API key behind this token is revoked or expired")
    })?;
    Ok(Credential::OnSandbox(Box::new(identity), record.id))
}

fn with(clients: &Clients, request: &Parts, record: SandboxRecord, credential: Credential) -> Authorized {
    let by_key = matches!(credential, Credential::Token(_));
    let client = ApiClient::of_parts(clients.parts.api.clone(), request, credential);
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
