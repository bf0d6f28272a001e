//! Streamable HTTP: one message per POST, streams resumed by GET. Each request is authenticated, and may use sessions of
//! its own credential only. Host and Origin were checked before (`rebinding_guard` of the API).

use super::{
    call::Call,
    cancel::cancel,
    event_id::EventId,
    follow, limits,
    messages::{self, ClientMessage, ClientRequest},
    methods::{self, Answer},
    revision::Revision,
    session::{CredentialHash, Session},
};
use crate::{
    ApiClient, ApiFailure, Clients, Credential,
    respond::{self, BodyError},
};
use axum::{body::Body, response::Response};
use hostd_core::token_hash;
use hyper::{
    HeaderMap, Method, Request, StatusCode,
    header::{
        ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
    },
};
use protocol::api::IdentityView;
use rmcp::model::{CancelledNotificationParam, ErrorCode, ErrorData, ProtocolVersion};
use serde_json::Value;

const PATH: &str = "/mcp";
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const SESSION_NOT_FOUND: ErrorCode = ErrorCode(-32001);
const INITIALIZE: &str = "initialize";

/// A request that is refused before its message is looked at.
struct Refusal {
    status: StatusCode,
    error: ErrorData,
    headers: HeaderMap,
}

impl Refusal {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let error = ErrorData::new(ErrorCode::INVALID_REQUEST, message.into(), None);
        Self { status, error, headers: HeaderMap::new() }
    }

    fn of(status: StatusCode, error: ErrorData) -> Self {
        Self { status, error, headers: HeaderMap::new() }
    }

    fn header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }
}

impl From<ApiFailure> for Refusal {
    fn from(failure: ApiFailure) -> Self {
        let mut refusal = Self::new(failure.status, failure.error.message);
        if failure.status == StatusCode::UNAUTHORIZED {
            refusal = refusal.header(WWW_AUTHENTICATE, "Bearer");
        }
        if let Some(after) = failure.headers.get(RETRY_AFTER) {
            refusal.headers.insert(RETRY_AFTER, after.clone());
        }
        refusal
    }
}

impl From<BodyError> for Refusal {
    fn from(error: BodyError) -> Self {
        let status = match error {
            BodyError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::Broken => StatusCode::BAD_REQUEST,
            BodyError::TimedOut => StatusCode::REQUEST_TIMEOUT,
        };
        Self::new(status, error.to_string())
    }
}

/// An authenticated request.
struct Caller {
    api: ApiClient,
    credential: CredentialHash,
    identity: IdentityView,
}

pub async fn serve(clients: &Clients, request: Request<Body>) -> Response {
    match answer(clients, request).await {
        Ok(response) => response,
        Err(Refusal { status, error, headers }) => {
            let mut response = json(status, messages::error(None, error));
            response.headers_mut().extend(headers);
            response
        }
    }
}

async fn answer(clients: &Clients, request: Request<Body>) -> Result<Response, Refusal> {
    if request.uri().path().trim_end_matches('/') != PATH {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "the endpoint of this protocol is /mcp"));
    }
    match *request.method() {
        Method::POST => post(clients, request).await,
        Method::GET if request.headers().contains_key(LAST_EVENT_ID) => resume(clients, request).await,
        _ => {
            // A session has nothing to be ended, and no messages but those of its calls.
            let message = "send messages by POST; GET resumes the stream of a call by Last-Event-ID";
            Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message).header(ALLOW, "POST"))
        }
    }
}

async fn post(clients: &Clients, request: Request<Body>) -> Result<Response, Refusal> {
    check_media_types(request.headers())?;
    let (credential, hash) = credential(request.headers())?;
    let api = ApiClient::of(clients.parts.api.clone(), &request, credential);
    let (parts, body) = request.into_parts();
    let caller = Caller::authenticate(api, hash).await?;
    let body = respond::read(body, limits::BODY_MAX_BYTES).await?;
    let message = messages::parse(&body).map_err(|error| Refusal::of(StatusCode::BAD_REQUEST, error))?;
    drop(body);
    if let ClientMessage::Request(request) = &message
        && request.method == INITIALIZE
    {
        return Ok(initialize(clients, &caller, request));
    }
    let session = session_of(clients, &caller, &parts.headers)?;
    match message {
        ClientMessage::Request(request) => Ok(respond_to(clients, caller, session, request).await),
        ClientMessage::Notification { method, params } => {
            if method == "notifications/cancelled"
                && let Ok(params) =
                    serde_json::from_value::<CancelledNotificationParam>(Value::Object(params))
                && let Some(request) = params.request_id
            {
                cancel(clients, &caller.api, &session, &request).await;
            }
            Ok(respond::empty(StatusCode::ACCEPTED))
        }
        ClientMessage::Answer => Ok(respond::empty(StatusCode::ACCEPTED)),
    }
}

fn initialize(clients: &Clients, caller: &Caller, request: &ClientRequest) -> Response {
    let requested = request.params.get("protocolVersion").and_then(Value::as_str);
    let Some(requested) = requested else {
        let error = ErrorData::invalid_params("initialize: protocolVersion is missing", None);
        return json(StatusCode::OK, messages::error(Some(request.id.clone()), error));
    };
    let session = Session::new(Revision::negotiate(requested), clients.parts.clock.now_ms());
    let result = methods::server_info(session.revision);
    let mut response = json(StatusCode::OK, messages::response(request.id.clone(), result));
    let id = session.id(&clients.parts.key, &caller.credential);
    response.headers_mut().insert(SESSION_ID, HeaderValue::try_from(id).expect("base64 is visible ASCII"));
    response
}

async fn respond_to(clients: &Clients, caller: Caller, session: Session, request: ClientRequest) -> Response {
    let call = Call {
        clients: clients.clone(),
        api: caller.api,
        caller: caller.identity,
        session,
        id: request.id.clone(),
        progress: request.progress.clone(),
    };
    match methods::call(&call, request).await {
        Ok(Answer::Result(result)) => json(StatusCode::OK, messages::response(call.id, result)),
        Ok(Answer::Follow(work, position)) => follow::response(call, work, position, false),
        Err(error) => json(StatusCode::OK, messages::error(Some(call.id), error)),
    }
}

async fn resume(clients: &Clients, request: Request<Body>) -> Result<Response, Refusal> {
    let (credential, hash) = credential(request.headers())?;
    let api = ApiClient::of(clients.parts.api.clone(), &request, credential);
    let headers = request.into_parts().0.headers;
    let caller = Caller::authenticate(api, hash).await?;
    let session = session_of(clients, &caller, &headers)?;
    let text = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok());
    let id = text.and_then(|text| EventId::decode(&clients.parts.key, &session, text));
    let EventId { work, position, request, progress } = id.ok_or_else(|| {
        Refusal::new(StatusCode::BAD_REQUEST, "no event of this session has this Last-Event-ID")
    })?;
    let Caller { api, identity, .. } = caller;
    let clients = clients.clone();
    let call = Call { clients, api, caller: identity, session, id: request, progress };
    Ok(follow::response(call, work, position, true))
}

/// Returns the credential of a request, and its hash.
fn credential(headers: &HeaderMap) -> Result<(Credential, CredentialHash), Refusal> {
    // The Unix socket, or a listener without authentication.
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok((Credential::Connection, [0; 32])) };
    let token = hostd_core::bearer(value).ok_or_else(|| {
        let message = "Authorization must be: Bearer, one space, a token";
        Refusal::new(StatusCode::UNAUTHORIZED, message).header(WWW_AUTHENTICATE, "Bearer")
    })?;
    Ok((Credential::Token(token.to_owned()), token_hash(token)))
}

impl Caller {
    /// Asks the API who this is: the answer is a refusal where the credential is none.
    async fn authenticate(api: ApiClient, credential: CredentialHash) -> Result<Self, Refusal> {
        let identity = api.get("/v1/identity").await?;
        Ok(Self { api, credential, identity })
    }
}

/// Returns the session of a request after `initialize`, which speaks the revision that was agreed on.
fn session_of(clients: &Clients, caller: &Caller, headers: &HeaderMap) -> Result<Session, Refusal> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let version = text(PROTOCOL_VERSION);
    if let Some(version) = version
        && Revision::parse(version).is_none()
    {
        return Err(Refusal::of(StatusCode::BAD_REQUEST, unsupported_version(version)));
    }
    let id = text(SESSION_ID).ok_or_else(|| {
        Refusal::new(StatusCode::BAD_REQUEST, "Mcp-Session-Id is missing: begin with initialize")
    })?;
    let parts = &clients.parts;
    let session =
        Session::open(&parts.key, id, &caller.credential, parts.clock.now_ms()).ok_or_else(|| {
            let message = "no session of this token has this Mcp-Session-Id: initialize again";
            Refusal::of(StatusCode::NOT_FOUND, ErrorData::new(SESSION_NOT_FOUND, message, None))
        })?;
    let agreed = session.revision.version();
    if version.is_some_and(|version| version != agreed.as_str()) {
        let message = format!("Mcp-Protocol-Version is not {agreed}, which was agreed on for this session");
        return Err(Refusal::new(StatusCode::BAD_REQUEST, message));
    }
    Ok(session)
}

fn unsupported_version(requested: &str) -> ErrorData {
    let supported: Vec<ProtocolVersion> = Revision::ALL.iter().map(|revision| revision.version()).collect();
    let data = serde_json::json!({"requested": requested, "supported": supported});
    ErrorData::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol version", Some(data))
}

fn check_media_types(headers: &HeaderMap) -> Result<(), Refusal> {
    let text =
        |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_lowercase();
    let sent = text(CONTENT_TYPE);
    if sent.split(';').next().map(str::trim) != Some("application/json") {
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type must be application/json",
        ));
    }
    let accepted = text(ACCEPT);
    let accepts = |kind: &str| accepted.contains(kind) || accepted.contains("*/*");
    if !headers.contains_key(ACCEPT) || (accepts("application/json") && accepts("text/event-stream")) {
        return Ok(());
    }
    let message = "Accept must name application/json and text/event-stream";
    Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, message))
}

fn json(status: StatusCode, text: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
