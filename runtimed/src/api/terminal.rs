//! A viewer of a terminal: gets recent bytes, then all that follows, in pieces with their positions; bytes it
//! sends are typed. Viewers come and go without affecting the process.

use super::execs;
use super::follow_log::position;
use super::response::{HttpResponse, Refusal, refuse};
use super::route::{ReadFrom, TerminalView};
use super::upgrade::{self, PendingUpgrade};
use crate::limits::{CHUNK_MAX_BYTES, REPLAY_DEFAULT_BYTES, VIEWER_LAG_MAX_BYTES, VIEWER_LOOK_BYTES};
use crate::log::{Read, ReadError, Reader};
use crate::supervisor::{Command, ExecCommand, Handle, JobInput, LogHandle};
use hyper::Request;
use hyper::body::Incoming;
use protocol::{ErrorCode, ExecId, TerminalFrameHeader};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub const PROTOCOL: &str = "slipway-terminal";
/// Size of one read of typed input.
const TYPED_MAX_BYTES: usize = 16 << 10;

pub async fn attach(
    handle: &Handle,
    request: &mut Request<Incoming>,
    pending_upgrade: &PendingUpgrade,
    id: ExecId,
    view: TerminalView,
) -> Result<HttpResponse, Refusal> {
    upgrade::check(request, PROTOCOL)?;
    let log = execs::log(handle, &id).await?;
    let asked = id.clone();
    let exec = handle.ask(|reply| ExecCommand::View { id: asked, reply }).await?;
    if !exec.tty {
        return Err(refuse(
            ErrorCode::Conflict,
            format!("exec {id} has no terminal; follow its output instead"),
        ));
    }
    // A terminal that has ended can still be viewed.
    let input = handle.ask(|reply| ExecCommand::Input { id, reply }).await.ok();
    let permit = handle.follower_permit()?;
    let reader = Reader::new(&log.dir, begin(&log, view.from)?);
    let (counted, handle) = (handle.viewer(), handle.clone());
    let mut viewer = TerminalViewer { handle, log, reader, skips: view.skips, since_lag_check: u64::MAX };
    Ok(upgrade::switch(request, pending_upgrade, PROTOCOL, move |stream| async move {
        let _counted = (counted, permit);
        let (mut from_viewer, mut to_viewer) = tokio::io::split(stream);
        tokio::select! {
            // Either side ending ends the attachment; the rest of the output stays in the log.
            () = viewer.run(&mut to_viewer) => {}
            () = type_in(input, &mut from_viewer) => {}
        }
        let _ = to_viewer.shutdown().await;
    }))
}

/// As for any reader, but trimmed output is skipped: the position of a piece shows it.
fn begin(log: &LogHandle, from: ReadFrom) -> Result<u64, Refusal> {
    match position(log, from, None) {
        Err(refusal) if refusal.error.code == ErrorCode::HistoryGone => position(log, ReadFrom::Start, None),
        found => found,
    }
}

/// The output of one viewer. It reads the log, so a slow viewer delays no other.
struct TerminalViewer {
    handle: Handle,
    log: LogHandle,
    reader: Reader,
    skips: bool,
    /// Bytes sent since the lag was last checked.
    since_lag_check: u64,
}

impl TerminalViewer {
    async fn run(&mut self, to: &mut (impl AsyncWrite + Unpin)) {
        loop {
            let head = *self.log.head.borrow_and_update();
            self.skip_ahead();
            let at = self.reader.position();
            match self.reader.read(CHUNK_MAX_BYTES, head.end) {
                Ok(Read::Bytes { bytes, .. }) => {
                    self.since_lag_check = self.since_lag_check.saturating_add(bytes.len() as u64);
                    if piece(to, at, &bytes).await.is_err() {
                        return;
                    }
                }
                Ok(Read::Gap { .. }) => {}
                Err(ReadError::Trimmed { oldest }) => self.reader.seek(oldest),
                Ok(Read::End) if head.ended.is_some() => return,
                Ok(Read::End) => {
                    let seen = self.reader.position();
                    self.handle.send(Command::Arm { key: self.log.key.clone(), seen }).await;
                    if self.log.head.changed().await.is_err() {
                        return;
                    }
                }
                Err(ReadError::Io(_)) => return,
            }
        }
    }

    /// Skips ahead when a program prints faster than the connection carries: a viewer wants the current
    /// output.
    fn skip_ahead(&mut self) {
        if !self.skips || self.since_lag_check < VIEWER_LOOK_BYTES {
            return;
        }
        self.since_lag_check = 0;
        let last = |bytes| position(&self.log, ReadFrom::Last(bytes), None).unwrap_or_default();
        if last(VIEWER_LAG_MAX_BYTES) > self.reader.position() {
            let ahead = last(REPLAY_DEFAULT_BYTES);
            self.reader.seek(ahead);
        }
    }
}

async fn piece(to: &mut (impl AsyncWrite + Unpin), at: u64, bytes: &[u8]) -> std::io::Result<()> {
    let piece = [&TerminalFrameHeader { at, length: bytes.len() as u32 }.to_bytes(), bytes].concat();
    to.write_all(&piece).await?;
    to.flush().await
}

async fn type_in(input: Option<Arc<JobInput>>, from: &mut (impl AsyncReadExt + Unpin)) {
    let mut buffer = vec![0; TYPED_MAX_BYTES];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if let Some(input) = &input
            && input.write_all(&buffer[..length]).await.is_err()
        {
            // The job is gone; its last output is still being sent.
            return std::future::pending().await;
        }
    }
}
