//! Lists listening sockets with `sock_diag`, as `ss -lt` does.
//!
//! `/proc/net/tcp` has the same content, but to write it the kernel walks its table of *all* connections of
//! the host: measured 3 to 10 ms for a table of 262,144 slots with one socket in it, against 0.1 ms here.
//! That is too long for PID 1, which has one thread, so the text is the fallback for kernels and seccomp
//! filters without this.
//!
//! Must not: block. The reply to a dump is available as soon as the request is sent.

use super::tcp_table::Listener;
use crate::limits::PROC_ENTRIES_MAX;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsRawFd;

/// The kernel never sends a larger piece of a reply.
const PIECE_MAX_BYTES: usize = 32 << 10;
/// `struct nlmsghdr`: length, type, flags, sequence number, port.
const HEAD_BYTES: usize = 16;
/// `struct inet_diag_req_v2`.
const REQUEST_BYTES: usize = 56;
/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `TCP_LISTEN`, as a bit.
const LISTENING: u32 = 1 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// Lists the sockets; `None` when the kernel, or a seccomp filter, rejects the request.
pub fn listeners(family: Family) -> Option<Vec<Listener>> {
    ask(family).ok().flatten()
}

fn ask(family: Family) -> Result<Option<Vec<Listener>>, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkSockDiag)?;
    send(socket.as_raw_fd(), &request(family), MsgFlags::empty())?;
    let mut piece = vec![0; PIECE_MAX_BYTES];
    let mut found = Vec::new();
    while found.len() < PROC_ENTRIES_MAX {
        let length = recv(socket.as_raw_fd(), &mut piece, MsgFlags::empty())?;
        match parse(&piece[..length], &mut found) {
            Piece::More if length > 0 => {}
            Piece::Last => break,
            Piece::More | Piece::Broken => return Ok(None),
        }
    }
    Ok(Some(found))
}

fn request(family: Family) -> [u8; HEAD_BYTES + REQUEST_BYTES] {
    let mut bytes = [0; HEAD_BYTES + REQUEST_BYTES];
    bytes[0..4].copy_from_slice(&((HEAD_BYTES + REQUEST_BYTES) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    bytes[16] = family.number();
    bytes[17] = libc::IPPROTO_TCP as u8;
    bytes[20..24].copy_from_slice(&LISTENING.to_ne_bytes());
    bytes
}

impl Family {
    fn number(self) -> u8 {
        match self {
            Self::V4 => libc::AF_INET as u8,
            Self::V6 => libc::AF_INET6 as u8,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    More,
    Last,
    Broken,
}

/// Parses one piece of a reply: consecutive messages, each with its length.
fn parse(mut bytes: &[u8], found: &mut Vec<Listener>) -> Piece {
    while !bytes.is_empty() {
        let Some((kind, body, rest)) = split_message(bytes) else { return Piece::Broken };
        match i32::from(kind) {
            libc::NLMSG_DONE => return Piece::Last,
            libc::NLMSG_ERROR => return Piece::Broken,
            _ if kind == BY_FAMILY => found.extend(parse_socket(body)),
            _ => {}
        }
        bytes = rest;
    }
    Piece::More
}

fn split_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(field(bytes, 0)?)).ok()?;
    let kind = u16::from_ne_bytes(field(bytes, 4)?);
    let body = bytes.get(HEAD_BYTES..length)?;
    // Messages are aligned to 4 bytes; the last one may be without padding.
    let rest = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, body, rest))
}

/// `struct inet_diag_msg`. Port and address are in network byte order, the rest in the machine's.
fn parse_socket(body: &[u8]) -> Option<Listener> {
    let family = i32::from(*body.first()?);
    let port = u16::from_be_bytes(field(body, 4)?);
    let address: IpAddr = match family {
        libc::AF_INET => field::<4>(body, 8)?.into(),
        libc::AF_INET6 => Ipv6Addr::from(field::<16>(body, 8)?).into(),
        _ => return None,
    };
    let inode = u32::from_ne_bytes(field(body, 68)?).into();
    Some(Listener { port, address, inode })
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::proptest;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[0..4].copy_from_slice(&((HEAD_BYTES + body.len()) as u32).to_ne_bytes());
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// With five bytes of attributes behind it, as newer kernels add.
    fn socket_body(family: Family, port: u16, address: &[u8], inode: u32) -> Vec<u8> {
        let mut body = vec![0; 72 + 5];
        body[0] = family.number();
        body[4..6].copy_from_slice(&port.to_be_bytes());
        body[8..8 + address.len()].copy_from_slice(address);
        body[68..72].copy_from_slice(&inode.to_ne_bytes());
        body
    }

    #[test]
    fn answers_are_read_message_by_message() {
        let v4 = message(BY_FAMILY, &socket_body(Family::V4, 8080, &[127, 0, 0, 1], 4711));
        let v6 = message(BY_FAMILY, &socket_body(Family::V6, 3000, &[0; 16], 12));
        let (done, error) =
            (message(libc::NLMSG_DONE as u16, &[0; 4]), message(libc::NLMSG_ERROR as u16, &[]));
        let noop = message(libc::NLMSG_NOOP as u16, &[]);
        let (both, short) = ([v4.clone(), v6].concat(), message(BY_FAMILY, &[2; 71]));
        let unpadded = &v4[..v4.len() - 3];
        for (why, bytes, outcome, expected) in [
            ("nothing", vec![], Piece::More, 0),
            ("two", both.clone(), Piece::More, 2),
            ("two and the end", [both, done.clone()].concat(), Piece::Last, 2),
            ("the last one not filled up", unpadded.to_vec(), Piece::More, 1),
            ("what is after the end", [done, v4.clone()].concat(), Piece::Last, 0),
            ("an error", [v4.clone(), error].concat(), Piece::Broken, 1),
            ("other messages", [noop, v4.clone()].concat(), Piece::More, 1),
            ("a body too short", [short, v4.clone()].concat(), Piece::More, 1),
            ("a message cut off", v4[..40].to_vec(), Piece::Broken, 0),
            ("a length of nothing", vec![0; 32], Piece::Broken, 0),
        ] {
            let mut found = Vec::new();
            assert_eq!((parse(&bytes, &mut found), found.len()), (outcome, expected), "{why}");
        }
        let mut found = Vec::new();
        parse(&v4, &mut found);
        let address = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(found, [Listener { port: 8080, address, inode: 4711 }]);
    }

    #[test]
    fn the_kernel_answers_as_its_tables_do() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        let text = std::fs::read("/proc/self/net/tcp").expect("read");
        let by_table = super::super::tcp_table::parse(&text).find(|listener| listener.port == port);
        assert!(by_table.is_some());
        // Not every kernel has it; then the tables are used.
        let Some(found) = listeners(Family::V4) else { return };
        assert_eq!(found.into_iter().find(|listener| listener.port == port), by_table);
    }

    #[test]
    fn both_families_are_told_apart() {
        let Ok(listener) = std::net::TcpListener::bind("[::1]:0") else { return };
        let port = listener.local_addr().expect("address").port();
        let has = |family| listeners(family).map(|found| found.iter().any(|listener| listener.port == port));
        assert_ne!(has(Family::V6), Some(false));
        assert_ne!(has(Family::V4), Some(true));
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(bytes: Vec<u8>, body: Vec<u8>) {
            parse(&bytes, &mut Vec::new());
            parse(&message(BY_FAMILY, &body), &mut Vec::new());
        }
    }
}
