//! `filesystem.Filesystem`: metadata, directories and changes of files.

mod entry;
mod messages;
mod place;
mod verbs;
mod watch;
mod watch_events;
mod watchers;

pub use entry::written;
pub use place::on_path;
pub use watchers::Watchers;

use super::{auth::Authorized, refuse::closes, state::EnvdState};
use crate::e2b::connect::{
    self, CallKind, CallOptions, ConnectError, one_message, server_stream, unary, unary_message,
};
use axum::{body::Body, response::Response};
use std::sync::Arc;

/// The message of a silent watch.
const KEEPALIVE: &str = r#"{"keepalive":{}}"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Stat,
    MakeDir,
    Move,
    ListDir,
    Remove,
    WatchDir,
    CreateWatcher,
    GetWatcherEvents,
    RemoveWatcher,
}

impl Method {
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "Stat" => Self::Stat,
            "MakeDir" => Self::MakeDir,
            "Move" => Self::Move,
            "ListDir" => Self::ListDir,
            "Remove" => Self::Remove,
            "WatchDir" => Self::WatchDir,
            "CreateWatcher" => Self::CreateWatcher,
            "GetWatcherEvents" => Self::GetWatcherEvents,
            "RemoveWatcher" => Self::RemoveWatcher,
            _ => return None,
        })
    }

    pub fn kind(self) -> CallKind {
        match self {
            Self::WatchDir => CallKind::ServerStream,
            Self::Stat
            | Self::MakeDir
            | Self::Move
            | Self::ListDir
            | Self::Remove
            | Self::CreateWatcher
            | Self::GetWatcherEvents
            | Self::RemoveWatcher => CallKind::Unary,
        }
    }
}

/// The answer to messages that were not read to their end.
fn malformed(kind: CallKind, error: &ConnectError) -> Response {
    let mut response = connect::failed(kind, error);
    closes(&mut response);
    response
}

pub async fn serve(
    method: Method,
    sandbox: Authorized,
    state: Arc<EnvdState>,
    options: CallOptions,
    body: Body,
) -> Response {
    let (api, tenant) = (sandbox.api, sandbox.record.owner.tenant.clone());
    macro_rules! call {
        ($verb:expr) => {
            unary(match unary_message(body).await {
                Ok(request) => $verb(request).await,
                Err(error) => Err(error),
            })
        };
    }
    match method {
        Method::Stat => call!(async |request| verbs::stat(&api, request).await),
        Method::MakeDir => call!(async |request| verbs::make_dir(&api, request).await),
        Method::Move => call!(async |request| verbs::rename(&api, request).await),
        Method::ListDir => call!(async |request| verbs::list_dir(&api, request).await),
        Method::Remove => call!(async |request| verbs::remove(&api, request).await),
        Method::CreateWatcher => call!(async |request| state.watchers.create((&api, &tenant), request).await),
        Method::GetWatcherEvents => call!(async |request| state.watchers.events(&api, request).await),
        Method::RemoveWatcher => call!(async |request| state.watchers.remove(&api, &request).await),
        Method::WatchDir => match one_message(body).await {
            Ok(request) => server_stream(options, KEEPALIVE, |sink| watch::stream(api, request, sink)),
            Err(error) => malformed(method.kind(), &error),
        },
    }
}
