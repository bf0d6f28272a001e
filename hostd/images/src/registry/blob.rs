//! Downloads one blob to a file: in the middle of it again after an interruption, checked while it comes.

use super::{
    authorized_exchange::{Failure, ImageRequest, Session, header_text},
    content_range::ContentRange,
    error::RegistryError,
    partial_file::PartialFile,
    transport::{HttpResponse, TransportBody},
};
use crate::{
    Descriptor,
    limits::{BLOB_ATTEMPTS_MAX, PIECES_MAX, STALL_MIN_BYTES},
};
use bytes::Bytes;
use hyper::{
    HeaderMap, Method, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderValue, RANGE},
};
use std::{io, path::Path};
use tokio::{
    sync::mpsc,
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

/// A blob, the file that it goes to, and who is told how many bytes there are.
pub struct Download<'a> {
    pub session: &'a Session<'a>,
    pub blob: &'a Descriptor,
    pub to: &'a Path,
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// How an attempt ended that left the file as it should be.
enum Attempt {
    /// All bytes are there.
    Whole,
    Failed(Failure),
}

impl Download<'_> {
    /// Completes the file and checks it. A file that was there before and turns out to be wrong is downloaded again.
    pub async fn run(&self) -> Result<(), RegistryError> {
        let (path, max_bytes) = (self.to.to_owned(), self.blob.size);
        let mut partial = self.blocking(move || PartialFile::open(&path, max_bytes)).await?;
        let mut may_be_stale = partial.length() > 0;
        loop {
            partial = self.complete(partial).await?;
            let checked = self.session.errors().check_digest(&self.blob.digest, partial.digest());
            if checked.is_ok() {
                return Ok(());
            }
            partial.empty().map_err(|error| self.disk(error))?;
            if !std::mem::take(&mut may_be_stale) {
                return checked;
            }
        }
    }

    /// Makes attempts until all bytes are there. Attempts that bring nothing are counted; all of them are bounded.
    async fn complete(&self, mut partial: PartialFile) -> Result<PartialFile, RegistryError> {
        let (mut attempts, mut in_vain) = (0, 0);
        (self.progress)(partial.length());
        while partial.length() < self.blob.size {
            let before = partial.length();
            let attempt;
            (partial, attempt) = self.attempt(partial).await?;
            attempts += 1;
            in_vain = if partial.length() > before { 1 } else { in_vain + 1 };
            match attempt {
                Attempt::Whole => break,
                Attempt::Failed(_) if attempts >= BLOB_ATTEMPTS_MAX => {
                    return Err(self
                        .session
                        .errors()
                        .unavailable("the connection breaks again and again".to_owned()));
                }
                Attempt::Failed(failure) => self.session.wait_to_retry(failure, in_vain).await?,
            }
        }
        Ok(partial)
    }

    async fn attempt(&self, mut partial: PartialFile) -> Result<(PartialFile, Attempt), RegistryError> {
        let from = partial.length();
        let response = match self.session.attempt(&self.request(from)).await {
            Ok(response) => response,
            Err(failure) => return Ok((partial, Attempt::Failed(failure))),
        };
        let start = self.check_head(&response, from)?;
        if start < from {
            partial.empty().map_err(|error| self.disk(error))?;
        }
        let (pieces, accepted) = mpsc::channel(PIECES_MAX);
        let writing = spawn_blocking(move || {
            let written = partial.append_all(accepted);
            (partial, written)
        });
        let received = self.receive(response.body, start, pieces).await;
        let (mut partial, written) = writing.await.map_err(|error| self.disk(io::Error::other(error)))?;
        written.map_err(|error| self.disk(error))?;
        if let Err(Failure::Permanent(_)) = received {
            partial.empty().map_err(|error| self.disk(error))?;
        }
        Ok((partial, received.map_or_else(Attempt::Failed, |()| Attempt::Whole)))
    }

    /// Asks for everything from an offset on.
    fn request(&self, from: u64) -> ImageRequest {
        let digest = &self.blob.digest;
        let mut headers = HeaderMap::new();
        if from > 0 {
            let range = HeaderValue::from_str(&format!("bytes={from}-"));
            headers.insert(RANGE, range.expect("digits are valid in a header"));
        }
        blob_request(self.session, digest, headers)
    }

    /// Returns the offset at which the response begins: where it was asked to, or at 0.
    fn check_head(&self, response: &HttpResponse, from: u64) -> Result<u64, RegistryError> {
        let (errors, headers) = (self.session.errors(), &response.head.headers);
        let start = match response.head.status {
            StatusCode::OK => 0,
            StatusCode::PARTIAL_CONTENT if from > 0 => {
                let range = header_text(headers, CONTENT_RANGE).and_then(ContentRange::parse);
                match range.is_some_and(|range| range.continues(from, self.blob.size)) {
                    true => from,
                    false => return Err(errors.unexpected("it sent another part of a blob than asked for")),
                }
            }
            // There is nothing after what was asked for, so the blob is shorter than its manifest says.
            StatusCode::RANGE_NOT_SATISFIABLE => {
                return Err(errors.wrong_size(&self.blob.digest, self.blob.size, false));
            }
            other => return Err(errors.unexpected(format!("it answered {} for a blob", other.as_u16()))),
        };
        let announced = header_text(headers, CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
        if announced.is_some_and(|length| length > self.blob.size - start) {
            return Err(errors.wrong_size(&self.blob.digest, self.blob.size, true));
        }
        Ok(start)
    }

    /// Hands on pieces until all bytes are there. Ends without an error where the writer has one.
    async fn receive(
        &self,
        mut body: TransportBody,
        start: u64,
        pieces: mpsc::Sender<Bytes>,
    ) -> Result<(), Failure> {
        let (mut received, mut window) = (start, self.stall_window(start));
        let interrupted = |why: &str| Failure::Transient { why: why.to_owned(), retry_after_ms: None };
        loop {
            let piece = match timeout_at(window.until, body.next()).await {
                Ok(Some(Ok(piece))) => piece,
                Ok(Some(Err(_))) => return Err(interrupted("the connection broke")),
                Ok(None) if received == self.blob.size => return Ok(()),
                Ok(None) => return Err(interrupted("the connection was closed in the middle of a blob")),
                Err(_) if received - window.since < STALL_MIN_BYTES => {
                    return Err(interrupted("it stopped sending"));
                }
                Err(_) => {
                    window = self.stall_window(received);
                    continue;
                }
            };
            received += piece.len() as u64;
            if received > self.blob.size {
                let error = self.session.errors().wrong_size(&self.blob.digest, self.blob.size, true);
                return Err(Failure::Permanent(error));
            }
            if pieces.send(piece).await.is_err() {
                return Ok(());
            }
            (self.progress)(received);
            // Time that was spent waiting for the disk does not count.
            if window.until < Instant::now() {
                window = self.stall_window(received);
            }
        }
    }

    fn stall_window(&self, since: u64) -> StallWindow {
        StallWindow { until: Instant::now() + self.session.transport.waits().stall_window, since }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, RegistryError> {
        let done = spawn_blocking(work).await.map_err(io::Error::other);
        done.and_then(|done| done).map_err(|error| self.disk(error))
    }

    fn disk(&self, error: io::Error) -> RegistryError {
        RegistryError::Disk { path: self.to.to_owned(), error }
    }
}

/// The time in which some bytes must arrive.
struct StallWindow {
    until: Instant,
    /// Bytes that were there at its beginning.
    since: u64,
}

pub fn blob_request(session: &Session<'_>, digest: &crate::Digest, headers: HeaderMap) -> ImageRequest {
    let target = format!("/v2/{}/blobs/{digest}", session.image.repository());
    ImageRequest { method: Method::GET, target, headers, what: format!("the blob {digest}") }
}
