//! A viewer of a terminal: gets recent bytes, then everything that follows; what it sends is typed.
//! Viewers come and go; the process does not notice.

use super::execs;
use super::follow::position;
use super::reply::{Answer, Refusal, refuse};
use super::route::From;
use super::streams::{self, Afterwards};
use crate::limits::CHUNK_MAX_BYTES;
use crate::log::{Read, ReadError, Reader};
use crate::supervisor::{Command, Handle, Input, LogHandle};
use hyper::Request;
use hyper::body::Incoming;
use protocol::{ErrorCode, ExecId};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub const PROTOCOL: &str = "slipway-terminal";
/// What a viewer may type at once.
const TYPED_MAX_BYTES: usize = 16 << 10;

pub async fn attach(
    handle: &Handle,
    request: &mut Request<Incoming>,
    afterwards: &Afterwards,
    id: ExecId,
    replay: u64,
) -> Result<Answer, Refusal> {
    streams::check(request, PROTOCOL)?;
    let log = execs::log(handle, &id).await?;
    let asked = id.clone();
    let view = handle.ask(|reply| Command::Exec { id: asked, reply }).await?;
    if !view.tty {
        return Err(refuse(
            ErrorCode::Conflict,
            format!("exec {id} has no terminal; follow its output instead"),
        ));
    }
    // A terminal that has ended can still be looked at.
    let input = handle.ask(|reply| Command::ExecInput { id, reply }).await.ok();
    let permit = handle.follower()?;
    let reader = Reader::new(&log.dir, position(&log, From::Last(replay), None)?);
    let (counted, handle) = (handle.viewer(), handle.clone());
    Ok(streams::switch(request, afterwards, PROTOCOL, move |stream| async move {
        let _counted = (counted, permit);
        let (mut from_viewer, mut to_viewer) = tokio::io::split(stream);
        tokio::select! {
            // Either side ending ends the attachment; bytes not yet shown stay in the log.
            () = show(handle, log, reader, &mut to_viewer) => {}
            () = type_in(input, &mut from_viewer) => {}
        }
        let _ = to_viewer.shutdown().await;
    }))
}

async fn show(handle: Handle, mut log: LogHandle, mut reader: Reader, to: &mut (impl AsyncWrite + Unpin)) {
    loop {
        let head = *log.head.borrow_and_update();
        match reader.read(CHUNK_MAX_BYTES, head.end) {
            Ok(Read::Bytes { bytes, .. }) => {
                if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
                    return;
                }
            }
            Ok(Read::Gap { .. }) => {}
            Err(ReadError::Trimmed { oldest }) => reader.seek(oldest),
            Ok(Read::End) if head.ended.is_some() => return,
            Ok(Read::End) => {
                handle.tell(Command::Arm { key: log.key.clone(), seen: reader.position() }).await;
                if log.head.changed().await.is_err() {
                    return;
                }
            }
            Err(ReadError::Io(_)) => return,
        }
    }
}

async fn type_in(input: Option<Arc<Input>>, from: &mut (impl AsyncReadExt + Unpin)) {
    let mut buffer = vec![0; TYPED_MAX_BYTES];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if let Some(input) = &input
            && input.write_all(&buffer[..length]).await.is_err()
        {
            // The job is gone; what it still printed is being shown.
            return std::future::pending().await;
        }
    }
}
