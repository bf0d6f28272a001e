//! The parts of a form, each with its content as a body of its own.

use super::multipart::{Event, Multipart, MultipartError};
use super::part_headers;
pub use super::part_headers::Part;
use axum::{BoxError, body::Body};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use tokio::sync::mpsc;

/// Pieces of content that wait for the file.
const QUEUED_PIECES_MAX: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PartsError {
    #[error("the form is malformed: {0}")]
    Malformed(#[from] MultipartError),
    #[error("the body ended early")]
    Broken,
}

pub struct Parts {
    form: Multipart,
    body: Body,
}

/// Where the content of a part goes; an error is a body that is cut.
pub type ContentSender = mpsc::Sender<Result<Bytes, BoxError>>;

impl Parts {
    pub fn new(content_type: &str, body: Body) -> Result<Self, PartsError> {
        Ok(Self { form: Multipart::new(content_type)?, body })
    }

    /// The next part; what is left of the one before is passed over.
    pub async fn next(&mut self) -> Result<Option<Part>, PartsError> {
        loop {
            match self.event().await? {
                Some(Event::Part(headers)) => return Ok(Some(part_headers::parse(&headers))),
                Some(Event::Data(_) | Event::PartEnd) => {}
                Some(Event::End) | None => return Ok(None),
            }
        }
    }

    /// A body for the content of the part, to be fed.
    pub fn content(&self) -> (ContentSender, Body) {
        let (sender, receiver) = mpsc::channel(QUEUED_PIECES_MAX);
        let pieces = stream::unfold(receiver, async |mut receiver| {
            receiver.recv().await.map(|piece: Result<Bytes, BoxError>| (piece, receiver))
        });
        // A body that has ended may be asked again.
        (sender, Body::from_stream(pieces.fuse()))
    }

    /// Feeds the content of the part to its body. A body that is not read any more has failed, and says why itself.
    pub async fn feed(&mut self, content: ContentSender) -> Result<(), PartsError> {
        loop {
            match self.event().await {
                Ok(Some(Event::Data(data))) => {
                    if content.send(Ok(data)).await.is_err() {
                        return Ok(());
                    }
                }
                Ok(Some(Event::PartEnd)) => return Ok(()),
                Ok(Some(Event::Part(_) | Event::End) | None) => {
                    return Err(cut(&content, MultipartError::Cut.into()).await);
                }
                Err(error) => return Err(cut(&content, error).await),
            }
        }
    }

    /// The next event; `None` at the end of the form.
    async fn event(&mut self) -> Result<Option<Event>, PartsError> {
        loop {
            if let Some(event) = self.form.take()? {
                return Ok(Some(event));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.form.push(&data);
                    }
                }
                Some(Err(_)) => return Err(PartsError::Broken),
                None => return self.form.finish().map(|()| None).map_err(Into::into),
            }
        }
    }
}

/// Nothing of a part that is cut is written.
async fn cut(content: &ContentSender, error: PartsError) -> PartsError {
    let _ = content.send(Err(error.into())).await;
    error
}
