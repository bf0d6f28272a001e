//! Connects to the server of a repository, by the rules of the sandbox and of the host.

use super::failure::GitFailure;
use hostd_core::{
    GitRemote, GitTransport,
    egress::{Decision, Destination, Host, reserved},
};
use hostd_edge::egress::SandboxEgress;
use hostd_net::outbound::{OutboundConnector, OutboundError};
use std::net::IpAddr;
use tokio::net::TcpStream;

/// Opens a connection to an address that passes the rules.
pub async fn open_tcp(
    connector: &OutboundConnector,
    egress: &SandboxEgress,
    remote: &GitRemote,
) -> Result<TcpStream, GitFailure> {
    let server = remote.server();
    if let Some(denial) = egress.policy().precheck(server) {
        return Err(GitFailure::Denied(denial.message(server)));
    }
    let is_allowed = |address| may_connect(egress, remote, address).is_ok();
    match connector.connect(&host_name(server), server.port, is_allowed).await {
        Ok(stream) => Ok(stream),
        Err(OutboundError::NotAllowed { address, .. }) => {
            let why = may_connect(egress, remote, address).err();
            Err(GitFailure::Denied(why.unwrap_or_else(|| format!("no address of {server} may be reached"))))
        }
        Err(error) => Err(GitFailure::Unreachable(error.to_string())),
    }
}

pub fn host_name(server: &Destination) -> String {
    match &server.host {
        Host::Name(name) => name.clone(),
        Host::Address(address) => address.to_string(),
    }
}

/// The rules of the sandbox decide. Without encryption only addresses that are not public are reached, which the
/// operator has to except.
fn may_connect(egress: &SandboxEgress, remote: &GitRemote, address: IpAddr) -> Result<(), String> {
    let server = remote.server();
    let is_encrypted = match remote.transport() {
        GitTransport::Https | GitTransport::Ssh { .. } => true,
        GitTransport::Http => false,
    };
    match egress.decide(server, address) {
        Decision::Denied(denial) => Err(denial.message(server)),
        Decision::Allowed(_) if is_encrypted || reserved(address).is_some() => Ok(()),
        Decision::Allowed(_) => {
            Err(format!("{server} is denied: http:// has no encryption; use the https:// address"))
        }
    }
}

pub fn no_response(remote: &GitRemote, why: &str) -> GitFailure {
    GitFailure::Unreachable(format!("no response from {}: {why}", remote.host_header()))
}
