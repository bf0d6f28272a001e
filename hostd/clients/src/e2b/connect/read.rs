//! Messages of a client.

use super::{Code, ConnectError, frame::Decoder, limits::MESSAGE_MAX_BYTES};
use crate::respond::{self, BodyError};
use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

/// The message of a call with one, whose body it is.
pub async fn unary_message<T: DeserializeOwned>(body: Body) -> Result<T, ConnectError> {
    let whole = respond::read(body, MESSAGE_MAX_BYTES).await.map_err(|error| {
        let code = match error {
            BodyError::TooLarge(_) => Code::ResourceExhausted,
            BodyError::Broken => Code::InvalidArgument,
            BodyError::TimedOut => Code::DeadlineExceeded,
        };
        ConnectError::new(code, error.to_string())
    })?;
    // A message without fields may be no bytes at all.
    parse(if whole.is_empty() { b"{}" } else { &whole })
}

/// The one message of a call that is answered with a stream.
pub async fn one_message<T: DeserializeOwned>(body: Body) -> Result<T, ConnectError> {
    let late = |_| ConnectError::new(Code::DeadlineExceeded, BodyError::TimedOut.to_string());
    timeout(respond::BODY_TIMEOUT, only_message(body)).await.map_err(late)?
}

async fn only_message<T: DeserializeOwned>(body: Body) -> Result<T, ConnectError> {
    let mut stream = ClientStream::new(body);
    let first = stream.next().await?.ok_or_else(|| ConnectError::invalid("the request has no message"))?;
    match stream.next::<serde::de::IgnoredAny>().await? {
        None => Ok(first),
        Some(_) => Err(ConnectError::invalid("the request has more than one message")),
    }
}

/// The messages of a stream.
pub struct ClientStream {
    body: Body,
    decoder: Decoder,
}

impl ClientStream {
    pub fn new(body: Body) -> Self {
        Self { body, decoder: Decoder::new(MESSAGE_MAX_BYTES) }
    }

    /// The next message; `None` at the end.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ConnectError> {
        match self.next_bytes().await? {
            Some(text) => parse(&text).map(Some),
            None => Ok(None),
        }
    }

    async fn next_bytes(&mut self) -> Result<Option<Bytes>, ConnectError> {
        loop {
            if let Some(message) = self.decoder.take()? {
                return Ok(Some(message));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.decoder.push(&data);
                    }
                }
                Some(Err(_)) => return Err(ConnectError::invalid("the body ended early")),
                None => return self.decoder.finish().map(|()| None).map_err(Into::into),
            }
        }
    }
}

fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, ConnectError> {
    serde_json::from_slice(text).map_err(|error| ConnectError::invalid(format!("unmarshal message: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::BoxError;
    use futures_util::{StreamExt, stream};

    #[tokio::test(start_paused = true)]
    async fn a_message_that_does_not_end_is_given_up() {
        let begun = stream::once(async { Ok::<_, BoxError>(Bytes::from_static(&[0, 0, 0, 0, 2, b'{'])) });
        let endless = Body::from_stream(begun.chain(stream::pending()));
        let error = one_message::<serde_json::Value>(endless).await.expect_err("no end");
        assert_eq!(error.code, Code::DeadlineExceeded);
    }
}
