//! Collects the body of a request: it is parsed, and may have to be sent more than once.

use super::{
    call_limits::BodyPermit,
    limits::{BODY_MAX_BYTES, BODY_MAX_MS},
    refusal::GatewayRefusal,
};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use std::time::Duration;
use tokio::time::timeout;

pub async fn collect_body(body: Incoming, permit: &mut BodyPermit) -> Result<Bytes, GatewayRefusal> {
    match timeout(Duration::from_millis(BODY_MAX_MS), collect(body, permit)).await {
        Ok(collected) => collected,
        Err(_) => Err(GatewayRefusal::BodyTimeout),
    }
}

async fn collect(mut body: Incoming, permit: &mut BodyPermit) -> Result<Bytes, GatewayRefusal> {
    let hint = body.size_hint();
    let announced = usize::try_from(hint.lower()).unwrap_or(usize::MAX);
    if announced > BODY_MAX_BYTES {
        return Err(GatewayRefusal::BodyTooLarge);
    }
    // An announced length is taken from the limits at once, so that a body which cannot fit is refused early.
    permit.grow(announced)?;
    let (mut permitted, mut collected) = (announced, BytesMut::new());
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|_| GatewayRefusal::MalformedBody)?.into_data() else { continue };
        let length = collected.len() + piece.len();
        if length > BODY_MAX_BYTES {
            return Err(GatewayRefusal::BodyTooLarge);
        }
        if length > permitted {
            permit.grow(length - permitted)?;
            permitted = length;
        }
        // Most bodies are short and come in one piece, which needs no copy.
        if collected.is_empty() && length == announced {
            return Ok(piece);
        }
        if collected.is_empty() {
            collected.reserve(announced);
        }
        collected.extend_from_slice(&piece);
    }
    Ok(collected.freeze())
}
