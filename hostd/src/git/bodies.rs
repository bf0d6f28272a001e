//! The bodies of one request and its response: counted, limited, and cut when their grant ends.

use super::{failure::GitFailure, grants::Grant, limits::IDLE_MAX_MS, upstream::UpstreamResponseBody};
use axum::BoxError;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hostd_core::{
    AdvertisedBranch,
    egress::{EventCounts, EventKey},
};
use hostd_edge::egress::{Direction, SandboxEgress};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep_until},
};

/// What one request moves. Its bytes count for the grant and for the network use of the sandbox.
pub struct Transfer {
    pub grant: Arc<Grant>,
    pub egress: Arc<SandboxEgress>,
    began: Instant,
    /// When bytes were moved last, in milliseconds after the beginning.
    moved_ms: AtomicU64,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
}

impl Transfer {
    pub fn new(grant: Arc<Grant>, egress: Arc<SandboxEgress>) -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        let (moved_ms, bytes_up, bytes_down) = (zero(), zero(), zero());
        Arc::new(Self { grant, egress, began: Instant::now(), moved_ms, bytes_up, bytes_down })
    }

    pub(super) fn count(&self, direction: Direction, bytes: usize) -> Result<(), GitFailure> {
        let bytes = bytes as u64;
        self.moved_ms.store(self.elapsed_ms(), Relaxed);
        let (own, all) = match direction {
            Direction::Up => (&self.bytes_up, &self.grant.bytes_up),
            Direction::Down => (&self.bytes_down, &self.grant.bytes_down),
        };
        own.fetch_add(bytes, Relaxed);
        let within = self.egress.count_bytes(direction, bytes);
        self.grant.count(all, bytes)?;
        match within {
            true => Ok(()),
            false => Err(GitFailure::TooLarge { max_bytes: self.egress.max_bytes() }),
        }
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Waits until the transfer must end: its grant is over, or nothing moves.
    pub async fn until_cut(self: Arc<Self>) -> GitFailure {
        let stalled = async {
            loop {
                let moved_ms = self.moved_ms.load(Relaxed);
                sleep_until(self.began + Duration::from_millis(moved_ms.saturating_add(IDLE_MAX_MS))).await;
                if self.moved_ms.load(Relaxed) == moved_ms {
                    return;
                }
            }
        };
        tokio::select! {
            // Every arm only waits, so cancelling it loses nothing.
            () = self.grant.ended.cancelled() => GitFailure::Ended,
            () = sleep_until(self.grant.deadline) => GitFailure::Ended,
            () = stalled => GitFailure::Stalled { seconds: IDLE_MAX_MS / 1_000 },
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let server = self.grant.remote.server();
        let key = EventKey {
            sandbox: self.grant.sandbox,
            verdict: "allowed",
            host: server.host.to_string(),
            port: server.port,
            rule: "git".to_owned(),
            profile: None,
            by: None,
            error: None,
        };
        let counts = EventCounts {
            times: 1,
            ended: 1,
            bytes_up: self.bytes_up.load(Relaxed),
            bytes_down: self.bytes_down.load(Relaxed),
            duration_ms: self.elapsed_ms(),
            address: None,
        };
        self.egress.record_event(key, counts);
    }
}

/// The body of a request: what was read of it to be checked, then the rest.
pub struct UploadBody {
    read: Bytes,
    rest: Option<Incoming>,
    transfer: Arc<Transfer>,
}

impl UploadBody {
    pub fn empty(transfer: Arc<Transfer>) -> Self {
        Self { read: Bytes::new(), rest: None, transfer }
    }

    pub fn new(read: Bytes, rest: Incoming, transfer: Arc<Transfer>) -> Self {
        Self { read, rest: Some(rest), transfer }
    }
}

impl Body for UploadBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let data = if self.read.is_empty() {
            let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
            match ready!(Pin::new(rest).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                // Trailers are not forwarded.
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            }
        } else {
            std::mem::take(&mut self.read)
        };
        let counted = self.transfer.count(Direction::Up, data.len());
        if let Err(failure) = &counted {
            self.transfer.grant.note_failure(failure);
        }
        Poll::Ready(Some(counted.map(|()| Frame::data(data)).map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.rest.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint);
        let read = self.read.len() as u64;
        let mut both = SizeHint::new();
        both.set_lower(rest.lower().saturating_add(read));
        if let Some(upper) = rest.upper() {
            both.set_upper(upper.saturating_add(read));
        }
        both
    }
}

/// The body of a response.
pub struct DownloadBody {
    body: UpstreamResponseBody,
    transfer: Arc<Transfer>,
    cut: BoxFuture<'static, GitFailure>,
    is_over: bool,
    /// Looks for the branch of a push among the refs of the server.
    branch: Option<AdvertisedBranch>,
    _place: OwnedSemaphorePermit,
}

impl DownloadBody {
    pub fn new(
        body: UpstreamResponseBody,
        transfer: Arc<Transfer>,
        branch: Option<AdvertisedBranch>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let cut = Box::pin(transfer.clone().until_cut());
        Self { body, transfer, cut, is_over: false, branch, _place: place }
    }

    /// Notes the commit of the branch that the server advertises.
    fn read_refs(&mut self, data: &[u8]) {
        let Some(branch) = &mut self.branch else { return };
        if let Some(commit) = branch.feed(data) {
            self.transfer.grant.note_on_server(commit.to_owned());
            self.branch = None;
        }
    }

    fn fail(&mut self, failure: &GitFailure) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.is_over = true;
        self.transfer.grant.note_failure(failure);
        Poll::Ready(Some(Err(failure.message().into())))
    }
}

impl Body for DownloadBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(failure) = self.cut.as_mut().poll(cx) {
            return self.fail(&failure);
        }
        match ready!(self.body.poll_data(cx)) {
            None => {
                self.is_over = true;
                Poll::Ready(None)
            }
            Some(Err(error)) => {
                let server = self.transfer.grant.remote.host_header();
                let failure = GitFailure::Unreachable(format!("the response of {server} broke off: {error}"));
                self.fail(&failure)
            }
            Some(Ok(data)) => match self.transfer.count(Direction::Down, data.len()) {
                Ok(()) => {
                    self.read_refs(&data);
                    Poll::Ready(Some(Ok(Frame::data(data))))
                }
                Err(failure) => self.fail(&failure),
            },
        }
    }
}
