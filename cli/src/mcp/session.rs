//! The session with hostd. It outlives hostd; where hostd does not know it any more, the bridge initializes again with
//! what the client said.

use crate::{
    client::{ApiRequest, Client, ClientError},
    limits,
    retry::Retry,
};
use http_body_util::BodyExt as _;
use hyper::{Response, body::Incoming};
use serde_json::{Value, json};
use tokio::sync::Mutex;

pub const PATH: &str = "/mcp";
const SESSION_ID: &str = "mcp-session-id";
const PROTOCOL_VERSION: &str = "mcp-protocol-version";

/// The headers of the requests of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionHeaders {
    id: Option<String>,
    version: Option<String>,
}

#[derive(Default)]
pub struct Session {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    headers: SessionHeaders,
    /// The message that the client began with.
    initialize: Option<Value>,
}

/// A POST of a message.
pub fn post(line: &[u8]) -> ApiRequest {
    // hostd answers when the work has begun; some tools answer when it has ended.
    let request = ApiRequest::post(PATH).timeout(limits::SETTLE_TIMEOUT).json_text(line.to_vec().into());
    request.header("accept", ACCEPT)
}

/// A GET that resumes a stream.
pub fn resume(last_event: &str) -> ApiRequest {
    ApiRequest::get(PATH).header("accept", "text/event-stream").header("last-event-id", last_event)
}

const ACCEPT: &str = "application/json, text/event-stream";

impl SessionHeaders {
    pub fn apply(&self, mut request: ApiRequest) -> ApiRequest {
        if let Some(id) = &self.id {
            request = request.header(SESSION_ID, id);
        }
        if let Some(version) = &self.version {
            request = request.header(PROTOCOL_VERSION, version);
        }
        request
    }
}

impl Session {
    pub async fn headers(&self) -> SessionHeaders {
        self.state.lock().await.headers.clone()
    }

    /// Remembers what a client began with, and the session that it got.
    pub async fn begun(&self, initialize: Value, id: Option<String>, answer: &[u8]) {
        let mut state = self.state.lock().await;
        state.headers = headers(id, answer);
        state.initialize = Some(initialize);
    }

    /// Initializes again, where the session is still the one that hostd did not know. Returns whether there is another
    /// session now.
    pub async fn renew(&self, client: &Client, unknown: &SessionHeaders) -> Result<bool, ClientError> {
        let mut state = self.state.lock().await;
        if state.headers != *unknown {
            return Ok(true);
        }
        let Some(initialize) = &state.initialize else { return Ok(false) };
        let line = initialize.to_string();
        let mut retry = Retry::new();
        let response = loop {
            match client.open_any(post(line.as_bytes())).await {
                Ok(response) if response.status().is_success() => break response,
                Ok(response) => {
                    retry.backoff(ClientError::Intermediary(response.status().to_string())).await?;
                }
                Err(error) => retry.backoff(error).await?,
            }
        };
        let id = session_id(&response);
        let answer = response.into_body().collect().await.map_err(ClientError::ConnectionLost)?.to_bytes();
        state.headers = headers(id, &answer);
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        // Tells hostd nothing that it has to know.
        let _ = client.open_any(state.headers.apply(post(ready.as_bytes()))).await;
        Ok(true)
    }
}

pub fn session_id(response: &Response<Incoming>) -> Option<String> {
    response.headers().get(SESSION_ID)?.to_str().ok().map(str::to_owned)
}

fn headers(id: Option<String>, answer: &[u8]) -> SessionHeaders {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let version = answer["result"]["protocolVersion"].as_str().map(str::to_owned);
    SessionHeaders { id, version }
}
