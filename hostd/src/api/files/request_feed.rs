//! Feeds the body of a request to a verb as it comes.

use super::super::{error::CallError, limits, request_body};
use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use protocol::api::ApiErrorCode;
use std::time::Duration;
use tokio::time::timeout;

/// The next bytes of a body; `None` at its end.
pub async fn next_chunk(body: &mut Body) -> Result<Option<Bytes>, CallError> {
    let idle = Duration::from_millis(limits::UPLOAD_IDLE_MAX_MS);
    loop {
        match timeout(idle, body.frame()).await {
            Err(_) => {
                return Err(CallError::new(
                    ApiErrorCode::TimedOut,
                    "no more of the body was received in time",
                ));
            }
            Ok(None) => return Ok(None),
            Ok(Some(Err(_))) => return Err(request_body::malformed()),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes)),
                // Trailers, or nothing.
                Ok(_) | Err(_) => {}
            },
        }
    }
}

/// Reads on after a refusal, for a while: a client that is still sending would not see the response of a connection that
/// is closed under it.
pub async fn drain(mut body: Body) {
    let drained = async {
        let mut left = limits::UPLOAD_DRAIN_MAX_BYTES;
        while let Ok(Some(bytes)) = next_chunk(&mut body).await {
            left = left.saturating_sub(bytes.len());
            if left == 0 {
                break;
            }
        }
    };
    let _ = timeout(Duration::from_millis(limits::UPLOAD_DRAIN_MAX_MS), drained).await;
}
