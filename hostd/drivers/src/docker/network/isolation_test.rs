//! Tests whether one container reaches another: opens a listener in the network namespace of one and dials it
//! from the other's, on every address. Blocks.

use crate::local::{files, files::errno, init::proc_of, limits::KERNEL_FILE_MAX_BYTES};
use nix::{
    ifaddrs::getifaddrs,
    net::if_::InterfaceFlags,
    sched::{CloneFlags, setns},
};
use std::{
    fs::File,
    io,
    net::{Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream},
    time::Duration,
};

/// An unfiltered connection takes far less.
const CONNECT_MAX: Duration = Duration::from_millis(1_000);
const ADDRESSES_MAX: usize = 16;

/// The flaw in the isolation of two containers, if there is one.
pub fn isolation_flaw(first: i32, second: i32) -> Option<String> {
    match test(first, second) {
        Ok(flaw) => flaw,
        Err(error) => Some(format!("the network of a container could not be tried: {error}")),
    }
}

fn test(first: i32, second: i32) -> io::Result<Option<String>> {
    if !has_default_route(first)? {
        return Ok(Some("its containers have no default route".to_owned()));
    }
    let (listener, addresses) =
        in_netns(second, || Ok((TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)), addresses()?)))?;
    // A namespace without IPv6 has no such address.
    let listener = match listener {
        Ok(listener) => listener,
        Err(_) => in_netns(second, || TcpListener::bind(("0.0.0.0", 0)))?,
    };
    let port = listener.local_addr()?.port();
    if addresses.is_empty() {
        return Ok(Some("its containers have no address".to_owned()));
    }
    let reached = in_netns(first, move || {
        let links: Vec<u32> = interfaces()?;
        let reach = |mut address: SocketAddr| {
            address.set_port(port);
            dial_addresses(address, &links)
                .iter()
                .any(|to| TcpStream::connect_timeout(to, CONNECT_MAX).is_ok())
        };
        Ok(addresses.into_iter().any(reach))
    })?;
    Ok(reached.then(|| {
        "its containers reach each other (an engine that may not change the firewall cannot isolate them)"
            .to_owned()
    }))
}

/// Addresses to dial: a link-local one on every link.
fn dial_addresses(address: SocketAddr, links: &[u32]) -> Vec<SocketAddr> {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => {
            links.iter().map(|link| SocketAddrV6::new(*v6.ip(), v6.port(), 0, *link).into()).collect()
        }
        SocketAddr::V4(_) | SocketAddr::V6(_) => vec![address],
    }
}

/// Runs `work` in a network namespace, on a thread of its own.
fn in_netns<T: Send + 'static>(
    pid: i32,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let netns = File::open(proc_of(pid).join("ns/net"))?;
    let thread = std::thread::Builder::new().name("network-trial".to_owned()).spawn(move || {
        setns(&netns, CloneFlags::CLONE_NEWNET).map_err(errno)?;
        work()
    })?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread in the network namespace panicked")))
}

/// All addresses except loopback.
fn addresses() -> io::Result<Vec<SocketAddr>> {
    let all = getifaddrs().map_err(errno)?.filter(|each| !each.flags.contains(InterfaceFlags::IFF_LOOPBACK));
    let socket = |each: nix::ifaddrs::InterfaceAddress| {
        let address = each.address?;
        let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::from((v4.ip(), 0)));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::from((v6.ip(), 0))))
    };
    Ok(all.filter_map(socket).take(ADDRESSES_MAX).collect())
}

fn interfaces() -> io::Result<Vec<u32>> {
    let all = getifaddrs().map_err(errno)?.filter(|each| !each.flags.contains(InterfaceFlags::IFF_LOOPBACK));
    let mut links: Vec<u32> =
        all.filter_map(|each| nix::net::if_::if_nametoindex(each.interface_name.as_str()).ok()).collect();
    links.sort_unstable();
    links.dedup();
    Ok(links)
}

/// Whether there is a default route, for IPv4 or IPv6.
fn has_default_route(pid: i32) -> io::Result<bool> {
    let read = |name: &str| {
        let text = files::read_text(&proc_of(pid).join(name), KERNEL_FILE_MAX_BYTES);
        text.map(|text| is_default_in(&text))
    };
    Ok(read("net/route")? || read("net/ipv6_route").unwrap_or(false))
}

/// `Iface Destination …` of IPv4; `destination prefix … interface` of IPv6, where the kernel also lists an
/// unreachable default on `lo`.
fn is_default_in(routes: &str) -> bool {
    routes.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let v4 = words.get(1) == Some(&"00000000");
        let zero = words.first().is_some_and(|word| word.len() == 32 && word.bytes().all(|b| b == b'0'));
        let v6 = zero && words.get(1) == Some(&"00") && words.last() != Some(&"lo");
        v4 || v6
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_route_is_told_from_others() {
        let v4 = "Iface\tDestination\tGateway\neth0\t000012AC\t00000000\n";
        assert!(!is_default_in(v4));
        assert!(is_default_in(&format!("{v4}eth0\t00000000\t010012AC\n")));
        let zeros = "0".repeat(32);
        assert!(!is_default_in(&format!(
            "{zeros} 00 {zeros} 00 {zeros} ffffffff 00000001 00000000 00200200       lo\n"
        )));
        assert!(is_default_in(&format!(
            "{zeros} 00 {zeros} 00 {zeros} 00000400 00000001 00000000 00000003     eth0\n"
        )));
        assert!(!is_default_in(""));
    }
}
