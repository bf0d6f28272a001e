//! The ports that the sandbox listens on, with the process behind each.
//!
//! Must not: connect to anything. It sees the network namespace of runtimed itself.

use super::buffer::Buffer;
use super::sock_diag::{self, Family};
use super::tcp_table::{self, Listener};
use super::{process::process, socket_owners};
use crate::limits::PROC_ENTRIES_MAX;
use crate::sys::fs_identity::Identity;
use protocol::ListeningPort;
use std::collections::HashMap;

/// Listening ports, sorted by port, then address; each pair once, though several processes may share it.
pub fn listening(identity: Identity) -> Vec<ListeningPort> {
    let mut listeners = listeners(Family::V4, "tcp");
    listeners.extend(self::listeners(Family::V6, "tcp6"));
    let (ports, wanted) = group(listeners);
    let found = socket_owners::find(identity, &wanted, ports.len());
    ports.into_iter().zip(found).map(|(port, owner)| listening_port(port, owner)).collect()
}

fn listeners(family: Family, table: &str) -> Vec<Listener> {
    sock_diag::listeners(family).unwrap_or_else(|| {
        let mut buffer = Buffer::new();
        // A kernel without IPv6 has no second table.
        let text = buffer.whole(format_args!("/proc/self/net/{table}")).unwrap_or_default();
        tcp_table::parse(text).collect()
    })
}

/// One listener for each port and address, and a map from socket inodes to them: with `SO_REUSEPORT` there
/// are several sockets.
fn group(mut listeners: Vec<Listener>) -> (Vec<Listener>, HashMap<u64, usize>) {
    listeners.sort_unstable();
    listeners.truncate(PROC_ENTRIES_MAX);
    let mut ports: Vec<Listener> = Vec::new();
    let mut wanted = HashMap::new();
    for listener in listeners {
        if ports.last().is_none_or(|last| (last.port, last.address) != (listener.port, listener.address)) {
            ports.push(listener);
        }
        if listener.inode != 0 {
            wanted.insert(listener.inode, ports.len() - 1);
        }
    }
    (ports, wanted)
}

fn listening_port(listener: Listener, owner: Option<i32>) -> ListeningPort {
    ListeningPort {
        port: listener.port,
        address: listener.address.to_string(),
        process: owner.and_then(process),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::reap::wait_for;
    use nix::unistd::{Gid, Pid, Uid};
    use std::net::{IpAddr, TcpListener};
    use std::os::fd::OwnedFd;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    const USER: Identity = Identity { uid: Uid::from_raw(1000), gid: Gid::from_raw(1000) };

    fn owner_of(port: u16) -> Option<i32> {
        let listed = listening(USER);
        let mut hits = listed.iter().filter(|listed| listed.port == port);
        let hit = hits.next().expect("the port is listed");
        assert_eq!((hit.address.as_str(), hits.count()), ("127.0.0.1", 0));
        hit.process.as_ref().map(|process| process.pid)
    }

    #[test]
    fn listeners_are_sorted_and_grouped_by_port_and_address() {
        let listener = |port, address: &str, inode| {
            let address: IpAddr = address.parse().expect("an address");
            Listener { port, address, inode }
        };
        let (ports, wanted) = group(vec![
            listener(8080, "::", 5),
            listener(8080, "0.0.0.0", 4),
            listener(3000, "127.0.0.1", 3),
            listener(8080, "0.0.0.0", 2),
            listener(9000, "0.0.0.0", 0),
        ]);
        let shown: Vec<_> = ports.iter().map(|port| format!("{}:{}", port.address, port.port)).collect();
        assert_eq!(shown, ["127.0.0.1:3000", "0.0.0.0:8080", ":::8080", "0.0.0.0:9000"]);
        assert_eq!(wanted, HashMap::from([(3, 0), (2, 1), (4, 1), (5, 2)]));
    }

    #[test]
    fn a_port_of_this_process_is_listed_with_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        assert_eq!(owner_of(port), Some(std::process::id() as i32));
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "sys/reap.rs is the one that waits")]
    fn a_port_of_a_process_of_the_user_is_listed_with_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        // The child holds the only copy of the socket, as its stdin.
        let mut command = Command::new("sleep");
        command.arg("600").uid(1000).gid(1000).stdin(OwnedFd::from(listener));
        let mut child = command.spawn().expect("root may start it as the user");
        drop(command);
        let owner = owner_of(port);
        child.kill().expect("kill");
        let pid = child.id() as i32;
        wait_for(Pid::from_raw(pid)).expect("reaped");
        assert_eq!(owner, Some(pid));
    }
}
