//! Packets between PID 1 and a shim: sequenced, bounded, with at most one descriptor attached.

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg,
    socketpair,
};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

#[derive(Debug)]
pub enum Received {
    Packet {
        length: usize,
        descriptor: Option<OwnedFd>,
    },
    /// The peer closed its end.
    Closed,
}

pub fn pair() -> nix::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
}

pub fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    attach: Option<BorrowedFd<'_>>,
    wait: bool,
) -> nix::Result<()> {
    let raw = attach.map(|fd| [fd.as_raw_fd()]);
    let control: Vec<ControlMessage<'_>> = raw.iter().map(|fds| ControlMessage::ScmRights(fds)).collect();
    let mut flags = MsgFlags::MSG_NOSIGNAL;
    flags.set(MsgFlags::MSG_DONTWAIT, !wait);
    loop {
        match sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], &control, flags, None) {
            Err(Errno::EINTR) => {}
            other => return other.map(drop),
        }
    }
}

/// Receives one packet. Never blocks: `EAGAIN` when there is none.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> nix::Result<Received> {
    match receive_once(socket, buffer) {
        // The peer closed without reading all we sent. Reported once, and before its last packets.
        Err(Errno::ECONNRESET) => receive_once(socket, buffer),
        received => received,
    }
}

fn receive_once(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> nix::Result<Received> {
    let mut space = nix::cmsg_space!([RawFd; 1]);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let mut slices = [IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), flags)?;
    let descriptor = message.cmsgs()?.find_map(|control| {
        let ControlMessageOwned::ScmRights(fds) = control else { return None };
        fds.into_iter().next()
    });
    let length = message.bytes;
    if length == 0 {
        return Ok(Received::Closed);
    }
    Ok(Received::Packet { length, descriptor: descriptor.map(own) })
}

/// Owns a descriptor that the kernel just passed.
#[allow(unsafe_code)]
fn own(fd: RawFd) -> OwnedFd {
    use std::os::fd::FromRawFd;
    // SAFETY: SCM_RIGHTS created this descriptor for us, and no other code knows its number.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    /// A shim that has reported its end and exits does not read an order that comes too late.
    #[test]
    fn last_packets_are_received_though_the_peer_did_not_read_ours() {
        let (ours, theirs) = pair().expect("a pair");
        send(theirs.as_fd(), b"ended", None, true).expect("room");
        send(ours.as_fd(), b"too late", None, false).expect("room");
        drop(theirs);
        let mut buffer = [0; 16];
        let heard = receive(ours.as_fd(), &mut buffer).expect("a packet");
        assert!(matches!(heard, Received::Packet { length: 5, .. }), "{heard:?}");
        assert_eq!(&buffer[..5], b"ended");
        assert!(matches!(receive(ours.as_fd(), &mut buffer), Ok(Received::Closed)));
    }
}
