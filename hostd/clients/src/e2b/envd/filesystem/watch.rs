//! Changes of a directory as a stream.

use super::{
    messages::{FilesystemEvent, WatchRequest},
    verbs,
    watch_events::{WatchEvents, WatchNews},
};
use crate::e2b::{
    connect::{Code, ConnectError, Sink},
    envd::{paths::ClientPath, sandbox_api::SandboxApi},
};
use serde_json::json;

pub async fn stream(api: SandboxApi, request: WatchRequest, sink: Sink) -> Result<(), ConnectError> {
    let mut watch = WatchEvents::open(&api, &request).await?;
    sink.send(br#"{"start":{}}"#).await;
    loop {
        match watch.next().await {
            WatchNews::Changed(events) => {
                for event in events {
                    let path = watch.path_to_describe(&event);
                    let event = with_entry(&api, path, event).await;
                    sink.send(json!({"filesystem": event}).to_string().as_bytes()).await;
                }
            }
            WatchNews::Overflow => return Err(overflow()),
            WatchNews::Ended => {
                return Err(ConnectError::new(
                    Code::Unavailable,
                    "the watch ended with the connection to its sandbox",
                ));
            }
        }
    }
}

/// The protocol has no event for it.
pub fn overflow() -> ConnectError {
    let message = "changes were lost because there were too many at once: list the directory again";
    ConnectError::new(Code::DataLoss, message)
}

/// Adds the entry at this path, if it is there.
pub async fn with_entry(
    api: &SandboxApi,
    path: Option<ClientPath>,
    event: FilesystemEvent,
) -> FilesystemEvent {
    let entry = match path {
        Some(path) => verbs::look_at(api, &path).await.ok(),
        None => None,
    };
    FilesystemEvent { entry, ..event }
}
