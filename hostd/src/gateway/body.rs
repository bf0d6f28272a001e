//! The body of a request, whole: it may have to be sent more than once.

use super::{
    limits::{BODY_MAX_BYTES, BODY_MAX_MS},
    places::Room,
    refusal::Refusal,
};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use std::time::Duration;
use tokio::time::timeout;

pub async fn whole(body: Incoming, room: &mut Room) -> Result<Bytes, Refusal> {
    match timeout(Duration::from_millis(BODY_MAX_MS), collect(body, room)).await {
        Ok(collected) => collected,
        Err(_) => Err(Refusal::NoBody),
    }
}

async fn collect(mut body: Incoming, room: &mut Room) -> Result<Bytes, Refusal> {
    let hint = body.size_hint();
    let told = usize::try_from(hint.lower()).unwrap_or(usize::MAX);
    if told > BODY_MAX_BYTES {
        return Err(Refusal::TooLarge);
    }
    // Where the length is told it is set aside at once.
    room.grow(told)?;
    let (mut held, mut whole) = (told, BytesMut::new());
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|_| Refusal::BadBody)?.into_data() else { continue };
        let length = whole.len() + piece.len();
        if length > BODY_MAX_BYTES {
            return Err(Refusal::TooLarge);
        }
        if length > held {
            room.grow(length - held)?;
            held = length;
        }
        // Most are short and come in one piece.
        if whole.is_empty() && length == told {
            return Ok(piece);
        }
        if whole.is_empty() {
            whole.reserve(told);
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}
