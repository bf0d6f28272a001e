//! What follows a reply, as the body of a response. A verb that fails in the middle breaks the response off.

use super::thread_exchange::DataPart;
use axum::{BoxError, body::Body};
use bytes::Bytes;
use futures_util::stream::unfold;
use hostd_drivers::control::{Control, FilesConnection};
use http_body_util::StreamBody;
use hyper::body::Frame;
use std::io::PipeWriter;
use tokio::sync::mpsc;

/// The bytes after a reply. The caller is gone when it is dropped.
pub enum ResponseData {
    Thread(ThreadData),
    Sandbox(Box<SandboxData>),
}

pub struct ThreadData {
    pub parts: mpsc::Receiver<DataPart>,
    /// Closes with the response, for a verb that waits for something else.
    pub _hang_up: Option<PipeWriter>,
    /// Released with the response.
    pub _permit: super::backend::FilesPermit,
}

pub struct SandboxData {
    pub connection: FilesConnection,
    /// Keeps the sandbox awake meanwhile.
    pub _awake: Option<Control>,
}

impl ResponseData {
    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        match self {
            Self::Thread(thread) => match thread.parts.recv().await {
                Some(DataPart::Data(bytes)) => Ok(Some(bytes)),
                Some(DataPart::End) => Ok(None),
                Some(DataPart::Failed(failure)) => Err(failure.message.into()),
                None => Err("the verb ended without an end".into()),
            },
            Self::Sandbox(sandbox) => Ok(sandbox.connection.next().await?),
        }
    }

    pub fn into_body(self) -> Body {
        let frames = unfold(Some(self), |data| async {
            let mut data = data?;
            match data.next().await {
                Ok(Some(bytes)) => Some((Ok(Frame::data(bytes)), Some(data))),
                Ok(None) => None,
                Err(error) => Some((Err::<_, BoxError>(error), None)),
            }
        });
        Body::new(StreamBody::new(frames))
    }
}
