//! `process.Process`: commands and PTYs, each an exec of Slipway.

mod delivery;
mod end;
mod exec_id;
mod find;
mod input;
mod list;
mod messages;
mod output;
mod start;

pub use delivery::Deliveries;

use super::{auth::Authorized, refuse::closes, state::EnvdState};
use crate::e2b::connect::{
    self, CallKind, CallOptions, ConnectError, client_stream, one_message, server_stream, unary,
    unary_message,
};
use axum::{body::Body, response::Response};
use std::sync::Arc;

/// The message of a silent stream of events.
const KEEPALIVE: &str = r#"{"event":{"keepalive":{}}}"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    List,
    Start,
    Connect,
    Update,
    StreamInput,
    SendInput,
    SendSignal,
    CloseStdin,
}

impl Method {
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "List" => Self::List,
            "Start" => Self::Start,
            "Connect" => Self::Connect,
            "Update" => Self::Update,
            "StreamInput" => Self::StreamInput,
            "SendInput" => Self::SendInput,
            "SendSignal" => Self::SendSignal,
            "CloseStdin" => Self::CloseStdin,
            _ => return None,
        })
    }

    pub fn kind(self) -> CallKind {
        match self {
            Self::Start | Self::Connect => CallKind::ServerStream,
            Self::StreamInput => CallKind::ClientStream,
            Self::List | Self::Update | Self::SendInput | Self::SendSignal | Self::CloseStdin => {
                CallKind::Unary
            }
        }
    }
}

/// The sandbox and the options of one call.
pub struct Context {
    pub sandbox: Authorized,
    pub state: Arc<EnvdState>,
    pub options: CallOptions,
}

/// The answer to messages that were not read to their end.
fn malformed(kind: CallKind, error: &ConnectError) -> Response {
    let mut response = connect::failed(kind, error);
    closes(&mut response);
    response
}

pub async fn serve(method: Method, context: Context, body: Body) -> Response {
    let api = context.sandbox.api.clone();
    match method {
        Method::Start => match one_message(body).await {
            Ok(request) => {
                server_stream(context.options, KEEPALIVE, |sink| start::start(context, request, sink))
            }
            Err(error) => malformed(method.kind(), &error),
        },
        Method::Connect => match one_message(body).await {
            Ok(request) => {
                server_stream(context.options, KEEPALIVE, |sink| output::connect(context, request, sink))
            }
            Err(error) => malformed(method.kind(), &error),
        },
        Method::StreamInput => client_stream(context.options, Box::pin(input::stream(&api, body)))
            .await
            .unwrap_or_else(|error| malformed(method.kind(), &error)),
        Method::List => unary(match unary_message::<messages::ListRequest>(body).await {
            Ok(messages::ListRequest {}) => list::list(&api).await,
            Err(error) => Err(error),
        }),
        Method::Update => unary(with(body, async |request| input::resize(&api, request).await).await),
        Method::SendInput => unary(with(body, async |request| input::send(&api, request).await).await),
        Method::SendSignal => unary(with(body, async |request| input::signal(&api, request).await).await),
        Method::CloseStdin => unary(with(body, async |request| input::close(&api, request).await).await),
    }
}

/// Reads the message of a call that is answered with an empty one.
async fn with<T: serde::de::DeserializeOwned>(
    body: Body,
    call: impl AsyncFnOnce(T) -> Result<(), ConnectError>,
) -> Result<messages::Empty, ConnectError> {
    call(unary_message(body).await?).await?;
    Ok(messages::Empty {})
}
