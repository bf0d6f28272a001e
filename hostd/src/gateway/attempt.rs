//! One try: the request on a line, the head of the answer, and the first bytes behind it. Nothing was passed on
//! yet when it fails, so it can be made again.

use super::{
    failure::Failure,
    headers::is_plain,
    limits::{ERROR_MAX_BYTES, ERROR_MAX_MS},
    line::Line,
    lines::Lines,
    origin::Origin,
    tap::{Form, Tap},
};
use crate::{core::nature_of_kind, models::ModelApi, outside::Outside};
use bytes::{Bytes, BytesMut};
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, Uri,
    body::{Body, Incoming},
    header::CONTENT_TYPE,
    http::response,
};
use std::{future::poll_fn, pin::Pin, task::Context, task::Poll, time::Duration};
use tokio::time::timeout;

/// What is asked, as often as it takes.
pub struct Outgoing {
    pub provider: String,
    pub origin: Origin,
    pub target: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub speech: ModelApi,
}

/// An answer that has begun.
pub struct Begun {
    pub head: response::Parts,
    pub first: Bytes,
    pub rest: Rest,
    pub form: Form,
    /// Has read the first bytes.
    pub tap: Tap,
}

/// The rest of an answer, and the line it comes on.
pub struct Rest {
    incoming: Incoming,
    line: Option<Box<Line>>,
    origin: Origin,
    lines: Lines,
}

/// Why there is none to pass on.
pub enum Unanswered {
    Failed(Failure),
    /// It is an answer, but says first of all that something went wrong.
    Troubled(Failure, Box<Begun>),
}

pub struct World {
    pub outside: Outside,
    pub lines: Lines,
    pub first_byte_max: Duration,
}

impl World {
    /// `sent` is told when there is a connection and the request goes out on it.
    pub async fn attempt(
        &self,
        outgoing: &Outgoing,
        sent: impl Fn() + Sync,
    ) -> Result<Box<Begun>, Unanswered> {
        let begun = async {
            let (line, response) = self.ask(outgoing, &sent).await.map_err(Unanswered::Failed)?;
            self.begin(outgoing, line, response).await
        };
        match timeout(self.first_byte_max, begun).await {
            Ok(begun) => begun,
            Err(_) => Err(Unanswered::Failed(Failure::slow(&outgoing.provider, self.first_byte_max))),
        }
    }

    async fn ask(
        &self,
        outgoing: &Outgoing,
        sent: &(impl Fn() + Sync),
    ) -> Result<(Box<Line>, Response<Incoming>), Failure> {
        let failed = |error| Failure::unreachable(&outgoing.provider, &error);
        if let Some(mut line) = self.lines.take(&outgoing.origin) {
            // It may have been closed in the meantime, which says nothing about the provider.
            sent();
            if let Ok(response) = line.send(outgoing.request()).await {
                return Ok((line, response));
            }
        }
        let mut line = Box::new(Line::open(&self.outside, &outgoing.origin).await.map_err(failed)?);
        sent();
        let response = line.send(outgoing.request()).await.map_err(failed)?;
        Ok((line, response))
    }

    async fn begin(
        &self,
        outgoing: &Outgoing,
        line: Box<Line>,
        response: Response<Incoming>,
    ) -> Result<Box<Begun>, Unanswered> {
        let provider = outgoing.provider.as_str();
        let (head, incoming) = response.into_parts();
        let mut rest = Rest::new(incoming, line, outgoing.origin.clone(), self.lines.clone());
        if !head.status.is_success() {
            let body = if is_plain(&head.headers) { rest.whole(ERROR_MAX_BYTES).await } else { None };
            let failure = Failure::answered(provider, head.status, head.headers, body);
            return Err(Unanswered::Failed(failure));
        }
        if !is_plain(&head.headers) {
            let why = "compresses its answers though it was asked not to, so nobody can tell what they use";
            return Err(Unanswered::Failed(Failure::useless(provider, why)));
        }
        let first = match poll_fn(|cx| rest.poll(cx)).await {
            Some(Ok(first)) => first,
            Some(Err(_)) | None => return Err(Unanswered::Failed(Failure::empty(provider))),
        };
        let kind = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let form = Form::of(kind.unwrap_or_default());
        let mut tap = Tap::new(outgoing.speech, form);
        tap.read(&first);
        let trouble = tap.trouble().map(|trouble| {
            Failure::within(head.status, nature_of_kind(&trouble.kind), trouble.words.clone())
        });
        let begun = Box::new(Begun { head, first, rest, form, tap });
        match trouble {
            Some(failure) => Err(Unanswered::Troubled(failure, begun)),
            None => Ok(begun),
        }
    }
}

impl Outgoing {
    fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

impl Rest {
    pub fn new(incoming: Incoming, line: Box<Line>, origin: Origin, lines: Lines) -> Self {
        Self { incoming, line: Some(line), origin, lines }
    }

    /// The next piece. Drives the line it comes on, and gives that back at the end.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Bytes>>> {
        loop {
            // What is there; else what the line has; else what that brought.
            let mut next = Pin::new(&mut self.incoming).poll_frame(cx);
            if next.is_pending()
                && let Some(line) = &mut self.line
            {
                line.drive(cx);
                next = Pin::new(&mut self.incoming).poll_frame(cx);
            }
            match next {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Poll::Ready(Some(Ok(data))),
                    // Nothing, or trailers, which nobody reads.
                    Ok(_) | Err(_) => {}
                },
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    if let Some(line) = self.line.take() {
                        self.lines.put(&self.origin, line);
                    }
                    return Poll::Ready(None);
                }
                // What it did not tell is told when it is gone.
                Poll::Pending if self.line.as_ref().is_some_and(|line| line.has_ended()) => self.line = None,
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// All of it, if it is short and comes soon.
    pub async fn whole(&mut self, max_bytes: usize) -> Option<Bytes> {
        let mut whole = BytesMut::new();
        let read = async {
            while let Some(piece) = poll_fn(|cx| self.poll(cx)).await {
                whole.extend_from_slice(&piece.ok()?);
                if whole.len() > max_bytes {
                    return None;
                }
            }
            Some(())
        };
        timeout(Duration::from_millis(ERROR_MAX_MS), read).await.ok().flatten()?;
        Some(whole.freeze())
    }
}
