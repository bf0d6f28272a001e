//! A verb on files: after the upgrade the connection is handed to a process of its own, and PID 1 does not see a byte
//! of it.

use super::lingering_stream::LingeringStream;
use super::response::{HttpResponse, Refusal};
use super::upgrade::{self, PendingUpgrade};
use crate::files_process::VerbPlace;
use crate::supervisor::{Command, FilesStart, Handle};
use hyper::Request;
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::io;
use std::os::fd::OwnedFd;

/// As `files::frames::PROTOCOL`; that crate is none of PID 1's.
pub const PROTOCOL: &str = "slipway-files";

pub fn open(
    handle: &Handle,
    request: &mut Request<Incoming>,
    pending_upgrade: &PendingUpgrade,
    place: VerbPlace,
) -> Result<HttpResponse, Refusal> {
    upgrade::check(request, PROTOCOL)?;
    let permit = handle.file_permit(place.sort)?;
    let handle = handle.clone();
    Ok(upgrade::switch(request, pending_upgrade, PROTOCOL, move |stream| async move {
        match take_socket(stream) {
            Ok(caller) => handle.send(Command::StartFiles(FilesStart { caller, place, permit })).await,
            Err(error) => tracing::warn!(%error, "failed to hand over a connection for files"),
        }
    }))
}

/// The socket itself, in which no byte was read beyond the request.
fn take_socket(stream: TokioIo<Upgraded>) -> io::Result<OwnedFd> {
    let parts = stream.into_inner().downcast::<TokioIo<LingeringStream>>();
    let parts = parts.map_err(|_| io::Error::other("the connection is not a Unix socket"))?;
    if !parts.read_buf.is_empty() {
        return Err(io::Error::other("the client sent bytes before the 101"));
    }
    let socket = parts.io.into_inner().into_inner().into_std()?;
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_protocol_has_one_name() {
        assert_eq!(super::PROTOCOL, files::frames::PROTOCOL);
    }
}
