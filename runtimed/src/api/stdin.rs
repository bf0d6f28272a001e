//! Input of an exec, streamed: as much as the client sends, as fast as the job reads.

use super::reply::{Answer, Refusal, no_content, refuse};
use crate::supervisor::{Command, Handle, Input};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use protocol::{ErrorCode, ExecId};

pub async fn write(handle: &Handle, id: ExecId, mut body: Incoming, eof: bool) -> Result<Answer, Refusal> {
    let asked = id.clone();
    let input = handle.ask(|reply| Command::ExecInput { id: asked, reply }).await?;
    let mut head = super::execs::log(handle, &id).await?.head;
    let (mut written, mut within_line) = (0, false);
    loop {
        let frame = tokio::select! {
            biased;
            // What was sent is taken before the end is looked at; a frame that is lost here has no reader.
            frame = body.frame() => frame,
            _ = head.wait_for(|head| head.ended.is_some()) => return Err(ended(&id, written)),
        };
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| refuse(ErrorCode::InvalidRequest, "the body ended too early"))?;
        let Ok(bytes) = frame.into_data() else { continue };
        tokio::select! {
            // A write that is cut short by the end of the exec has nobody to read it.
            done = put(&input, &bytes, written) => done?,
            _ = head.wait_for(|head| head.ended.is_some()) => return Err(ended(&id, written)),
        }
        written += bytes.len() as u64;
        within_line = bytes.last().map_or(within_line, |last| *last != b'\n');
    }
    if eof {
        let _ = input.end(within_line).await;
        drop(input);
        handle.ask(|reply| Command::CloseInput { id, reply }).await?;
    }
    Ok(no_content())
}

async fn put(input: &Input, bytes: &Bytes, written: u64) -> Result<(), Refusal> {
    let closed = |error| {
        refuse(ErrorCode::NotRunning, format!("the job closed its input after {written} bytes: {error}"))
    };
    input.write_all(bytes).await.map_err(closed)
}

fn ended(id: &ExecId, written: u64) -> Refusal {
    refuse(ErrorCode::NotRunning, format!("exec {id} ended; {written} bytes were written before"))
}
