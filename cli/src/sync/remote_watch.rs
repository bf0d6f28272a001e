//! Follows the watch stream of a directory of the sandbox, across restarts of hostd.

use super::remote_tree::RemoteDirectory;
use crate::{
    client::ClientError,
    commands::files::path_of,
    failure::Failure,
    files::WorkspacePath,
    limits,
    retry::{Notify, Retry},
    sse_body::{SseBody, SseState, sse_body},
};
use eventsource_stream::{EventStream, EventStreamError, Eventsource as _};
use futures_util::StreamExt as _;
use protocol::api::FileChangeView;
use std::sync::Arc;
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinHandle},
};

/// What the stream tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteChange {
    /// These paths are not what they were; relative to the workspace.
    Paths(Vec<WorkspacePath>),
    /// Changes may be missing: the tree has to be listed.
    Unknown,
}

/// The stream, read by a task that ends with this.
pub struct RemoteWatch {
    changes: mpsc::Receiver<Result<RemoteChange, Failure>>,
    task: AbortHandle,
}

impl RemoteWatch {
    /// Starts to follow; the first change is `Unknown`, when the stream stands.
    pub fn start(directory: &RemoteDirectory, notify: Notify) -> Self {
        let (sender, changes) = mpsc::channel(limits::SYNC_CHANGES_QUEUED);
        let follower = Follower {
            directory: directory.clone(),
            last: None,
            stream: None,
            state: Arc::default(),
            retry: Retry::unlimited(notify),
        };
        let task: JoinHandle<()> = tokio::spawn(follower.run(sender));
        Self { changes, task: task.abort_handle() }
    }

    /// The next change. Safe to cancel.
    pub async fn next(&mut self) -> Result<RemoteChange, Failure> {
        self.changes.recv().await.unwrap_or_else(|| Err(Failure::new("the watch of the sandbox ended")))
    }

    /// A change that is there already.
    pub fn try_next(&mut self) -> Option<Result<RemoteChange, Failure>> {
        self.changes.try_recv().ok()
    }
}

impl Drop for RemoteWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Follower {
    directory: RemoteDirectory,
    last: Option<String>,
    stream: Option<EventStream<SseBody>>,
    state: Arc<SseState>,
    retry: Retry,
}

impl Follower {
    async fn run(mut self, sender: mpsc::Sender<Result<RemoteChange, Failure>>) {
        loop {
            let change = match self.poll().await {
                Ok(Some(change)) => Ok(change),
                Ok(None) => continue,
                Err(error) => {
                    self.stream = None;
                    match self.retry.backoff(error).await {
                        Ok(()) => continue,
                        Err(error) => Err(error.into()),
                    }
                }
            };
            let is_last = change.is_err();
            if sender.send(change).await.is_err() || is_last {
                return;
            }
        }
    }

    async fn poll(&mut self) -> Result<Option<RemoteChange>, ClientError> {
        let Some(stream) = &mut self.stream else { return self.connect().await.map(|()| None) };
        let frame = match stream.next().await {
            None => return Err(ClientError::Incomplete),
            Some(Err(EventStreamError::Transport(error))) => return Err(error),
            Some(Err(error)) => return Err(ClientError::UnexpectedResponse(error.to_string())),
            Some(Ok(frame)) => frame,
        };
        self.state.on_frame();
        self.retry.reset();
        if !frame.id.is_empty() {
            self.last = Some(frame.id);
        }
        Ok(Some(change(&frame.event, &frame.data)))
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        let mut request = self.directory.api.watch_request(&self.directory.path);
        if let Some(last) = &self.last {
            request = request.header("last-event-id", last.clone());
        }
        let response = self.directory.api.client.open(request).await?;
        self.state = Arc::default();
        self.stream = Some(sse_body(response.into_body(), Arc::clone(&self.state)).eventsource());
        Ok(())
    }
}

/// What an event means. One that is not understood may mean anything.
fn change(event: &str, data: &str) -> RemoteChange {
    if !matches!(event, "created" | "modified" | "deleted" | "moved") {
        return RemoteChange::Unknown;
    }
    let Ok(view) = serde_json::from_str::<FileChangeView>(data) else { return RemoteChange::Unknown };
    if view.path_base64.is_some() && view.from.is_some() {
        // The text of the other path may be lossy too.
        return RemoteChange::Unknown;
    }
    let mut paths = vec![path_of(&view.path, view.path_base64.as_deref())];
    paths.extend(view.from.map(|from| WorkspacePath::from_relative(from.as_bytes())));
    RemoteChange::Paths(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_names_its_paths_and_anything_else_is_unknown() {
        let paths = |paths: &[&str]| {
            let parse = |path: &&str| WorkspacePath::parse(path.as_bytes()).expect("a path");
            RemoteChange::Paths(paths.iter().map(parse).collect())
        };
        let table = [
            ("created", r#"{"path":"a/b","directory":false}"#, paths(&["a/b"])),
            ("moved", r#"{"path":"b","directory":true,"from":"a"}"#, paths(&["b", "a"])),
            (
                "moved",
                r#"{"path":"b","path_base64":"Yg==","directory":true,"from":"a"}"#,
                RemoteChange::Unknown,
            ),
            ("ready", "{}", RemoteChange::Unknown),
            ("overflow", r#"{"reason":"x"}"#, RemoteChange::Unknown),
            ("modified", "{", RemoteChange::Unknown),
            ("new-kind", r#"{"path":"a","directory":false}"#, RemoteChange::Unknown),
        ];
        for (event, data, expected) in table {
            assert_eq!(change(event, data), expected, "{event} {data}");
        }
    }
}
