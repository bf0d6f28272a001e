//! Changes of a watched tree, read from the stream of server-sent events of the files API.

use super::messages::{EventType, FilesystemEvent};
use crate::{
    ApiFailure,
    e2b::{
        connect::{Code, ConnectError},
        envd::{
            filesystem::{messages::WatchRequest, verbs},
            paths::ClientPath,
            sandbox_api::SandboxApi,
        },
    },
};
use axum::body::Body;
use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::Method;
use protocol::api::{ApiErrorCode, FileChangeView};

/// Bytes of one event: two paths, escaped.
const EVENT_MAX_BYTES: usize = 128 << 10;

pub struct WatchEvents {
    path: ClientPath,
    include_entry: bool,
    /// The watched directory as the API calls it in its events.
    top: String,
    body: Body,
    rest: BytesMut,
}

/// The news of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchNews {
    Changed(Vec<FilesystemEvent>),
    /// Changes were lost.
    Overflow,
    Ended,
}

impl WatchEvents {
    /// Opens a watch; changes from now on are reported.
    pub async fn open(api: &SandboxApi, request: &WatchRequest) -> Result<Self, ConnectError> {
        let path = verbs::parse(&request.path)?;
        // A watch of a file, or of nothing, is an error of its own.
        verbs::check_directory(api, &path).await?;
        let mut place = (path.query("path"), path.in_workspace().unwrap_or(path.as_str()).to_owned());
        let opened = match Self::subscribe(api, &place.0, request.recursive).await {
            Err(failure) if failure.error.code == ApiErrorCode::OutsideWorkspace => {
                place = (path.query_anywhere("path"), path.inside());
                Self::subscribe(api, &place.0, request.recursive).await
            }
            opened => opened,
        };
        let mut watch = Self {
            path,
            include_entry: request.include_entry,
            top: place.1,
            body: opened?,
            rest: BytesMut::new(),
        };
        match watch.next_event().await {
            Some((name, _)) if name == "ready" => Ok(watch),
            Some(_) | None => Err(ConnectError::new(Code::Unavailable, "the watch ended before it began")),
        }
    }

    async fn subscribe(api: &SandboxApi, query: &str, recursive: bool) -> Result<Body, ApiFailure> {
        let response =
            api.send(api.request(Method::GET, &format!("/files/watch?{query}&recursive={recursive}")));
        Ok(response.await?.into_body())
    }

    /// Waits for news. Safe to cancel: what was read of an event is kept in `rest`.
    pub async fn next(&mut self) -> WatchNews {
        loop {
            let Some((name, data)) = self.next_event().await else { return WatchNews::Ended };
            if let Some(news) = self.news(&name, &data) {
                return news;
            }
        }
    }

    fn news(&self, event: &str, data: &str) -> Option<WatchNews> {
        let change = |kinds: &dyn Fn(&FileChangeView) -> Vec<(String, EventType)>| {
            let view: FileChangeView = serde_json::from_str(data).ok()?;
            let events = kinds(&view).into_iter().map(|(path, kind)| FilesystemEvent {
                name: self.name_of(&path),
                kind,
                entry: None,
            });
            Some(WatchNews::Changed(events.collect()))
        };
        match event {
            // A file that is moved into place appears with its content, which E2B's clients wait for as a write.
            "created" => change(&|view| {
                let content = (!view.directory).then(|| (view.path.clone(), EventType::Write));
                [(view.path.clone(), EventType::Create)].into_iter().chain(content).collect()
            }),
            "modified" => change(&|view| vec![(view.path.clone(), EventType::Write)]),
            "deleted" => change(&|view| vec![(view.path.clone(), EventType::Remove)]),
            "moved" => change(&|view| {
                let from = view.from.iter().map(|from| (from.clone(), EventType::Rename));
                from.chain([(view.path.clone(), EventType::Create)]).collect()
            }),
            "overflow" => Some(WatchNews::Overflow),
            _ => None,
        }
    }

    /// The path below the watched directory.
    fn name_of(&self, path: &str) -> String {
        path.strip_prefix(self.top.as_str()).unwrap_or(path).trim_start_matches('/').to_owned()
    }

    /// The path of the entry that the client wants with an event.
    pub fn path_to_describe(&self, event: &FilesystemEvent) -> Option<ClientPath> {
        let is_there = matches!(event.kind, EventType::Create | EventType::Write);
        let path = || ClientPath::parse(&format!("{}/{}", self.path.as_str(), event.name)).ok();
        (self.include_entry && is_there).then(path)?
    }

    /// The next event with a name: its name and data. `None` at the end.
    async fn next_event(&mut self) -> Option<(String, String)> {
        loop {
            while let Some(end) = self.rest.windows(2).position(|bytes| bytes == b"\n\n") {
                let block = self.rest.split_to(end + 2);
                if let Some(event) = parse_event(&block) {
                    return Some(event);
                }
            }
            if self.rest.len() > EVENT_MAX_BYTES {
                return None;
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }
}

/// A block without a name is a heartbeat.
fn parse_event(block: &[u8]) -> Option<(String, String)> {
    let text = std::str::from_utf8(block).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
    Some((field("event:")?.to_owned(), field("data:").unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(stream: &'static str) -> WatchEvents {
        WatchEvents {
            path: ClientPath::parse("dir").expect("a path"),
            include_entry: false,
            top: "dir".to_owned(),
            body: Body::from(stream),
            rest: BytesMut::new(),
        }
    }

    #[tokio::test]
    async fn events_of_the_api_are_changes_below_the_watched_directory() {
        let mut watch = events(concat!(
            ": heartbeat\n\n",
            "id: a-1\nevent: created\ndata: {\"path\":\"dir/a b\",\"directory\":false}\n\n",
            "event: created\ndata: {\"path\":\"dir/sub\",\"directory\":true}\n\n",
            "event: moved\ndata: {\"path\":\"dir/sub/y\",\"from\":\"dir/x\",\"directory\":false}\n\n",
            "event: overflow\ndata: {\"reason\":\"too many\"}\n\n",
        ));
        let event = |name: &str, kind| FilesystemEvent { name: name.to_owned(), kind, entry: None };
        let file = vec![event("a b", EventType::Create), event("a b", EventType::Write)];
        assert_eq!(watch.next().await, WatchNews::Changed(file));
        assert_eq!(watch.next().await, WatchNews::Changed(vec![event("sub", EventType::Create)]));
        let moved = vec![event("x", EventType::Rename), event("sub/y", EventType::Create)];
        assert_eq!(watch.next().await, WatchNews::Changed(moved));
        assert_eq!(watch.next().await, WatchNews::Overflow);
        assert_eq!(watch.next().await, WatchNews::Ended);
    }
}
