//! Streams input to an exec: as much as the client sends, as fast as the job reads.

use super::response::{HttpResponse, Refusal, no_content, refuse};
use crate::supervisor::{ExecCommand, Handle, JobInput};
use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use protocol::{ErrorCode, ExecId};

/// Position of a body within all input, and whether it is the last. A client that sends positions may repeat
/// a body when the connection was lost: bytes are not written twice.
pub struct BodyPosition {
    pub at: Option<u64>,
    pub eof: bool,
}

pub async fn write(
    handle: &Handle,
    id: ExecId,
    mut body: Incoming,
    place: BodyPosition,
) -> Result<HttpResponse, Refusal> {
    let asked = id.clone();
    let input = handle.ask(|reply| ExecCommand::Input { id: asked, reply }).await?;
    let mut head = super::execs::log(handle, &id).await?.head;
    let (mut written, mut within_line) = (0, false);
    let mut placed = match place.at {
        Some(_) => Some(input.offset().await),
        None => None,
    };
    let mut known = already_written(place.at, placed.as_deref().copied())?;
    loop {
        let frame = tokio::select! {
            biased;
            // Received bytes are handled before the end of the exec; a frame lost here has no reader.
            frame = body.frame() => frame,
            _ = head.wait_for(|head| head.ended.is_some()) => return Err(ended(&id, written)),
        };
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| refuse(ErrorCode::InvalidRequest, "the body ended too early"))?;
        let Ok(mut bytes) = frame.into_data() else { continue };
        let again = bytes.len().min(usize::try_from(known).unwrap_or(usize::MAX));
        known -= again as u64;
        bytes.advance(again);
        let mut unplaced = 0;
        let count = placed.as_deref_mut().unwrap_or(&mut unplaced);
        tokio::select! {
            // A write cut short by the end of the exec has no reader.
            done = put(&input, &bytes, count, written) => done?,
            _ = head.wait_for(|head| head.ended.is_some()) => return Err(ended(&id, written)),
        }
        written += bytes.len() as u64;
        within_line = bytes.last().map_or(within_line, |last| *last != b'\n');
    }
    drop(placed);
    if place.eof {
        let _ = input.end(within_line).await;
        drop(input);
        handle.ask(|reply| ExecCommand::CloseInput { id, reply }).await?;
    }
    Ok(no_content())
}

/// How many bytes of the body were written before.
fn already_written(at: Option<u64>, placed: Option<u64>) -> Result<u64, Refusal> {
    let Some((at, placed)) = at.zip(placed) else { return Ok(0) };
    placed.checked_sub(at).ok_or_else(|| {
        refuse(
            ErrorCode::Conflict,
            format!("at: only {placed} bytes came before; send those after them first"),
        )
    })
}

async fn put(input: &JobInput, bytes: &Bytes, count: &mut u64, written: u64) -> Result<(), Refusal> {
    let closed = |error| {
        refuse(ErrorCode::NotRunning, format!("the job closed its input after {written} bytes: {error}"))
    };
    input.write_counted(bytes, count).await.map_err(closed)
}

fn ended(id: &ExecId, written: u64) -> Refusal {
    refuse(ErrorCode::NotRunning, format!("exec {id} ended; {written} bytes were written before"))
}
