//! Connections to ports of the sandbox itself.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tokio::net::TcpStream;

/// Connects to a loopback port, IPv4 first, then IPv6. The error is that of IPv4.
pub async fn connect(port: u16) -> io::Result<TcpStream> {
    match connect_to(Ipv4Addr::LOCALHOST.into(), port).await {
        Ok(stream) => Ok(stream),
        Err(error) => connect_to(Ipv6Addr::LOCALHOST.into(), port).await.map_err(|_| error),
    }
}

/// Connects to an address. A connection whose own port happens to be the target connects to itself, as TCP
/// allows: that means no listener.
async fn connect_to(address: IpAddr, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((address, port)).await?;
    if stream.local_addr()? != stream.peer_addr()? {
        return Ok(stream);
    }
    // Closed with a reset, so that a program about to listen there finds the port free.
    stream.set_zero_linger()?;
    Err(io::ErrorKind::ConnectionRefused.into())
}
