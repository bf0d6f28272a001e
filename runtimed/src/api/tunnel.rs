//! A byte stream to a loopback port of the sandbox.

use super::response::{HttpResponse, Refusal, refuse};
use super::upgrade::{self, PendingUpgrade};
use crate::supervisor::{Command, Handle};
use crate::sys::loopback;
use hyper::Request;
use hyper::body::Incoming;
use protocol::{ErrorCode, ListeningPort, TunnelRefusal};

pub const PROTOCOL: &str = "slipway-tunnel";

pub async fn open(
    handle: &Handle,
    request: &mut Request<Incoming>,
    pending_upgrade: &PendingUpgrade,
    port: u16,
) -> Result<HttpResponse, Refusal> {
    upgrade::check(request, PROTOCOL)?;
    let Ok(mut inside) = loopback::connect(port).await else {
        let listening = handle.ask(|reply| Command::Ports { reply }).await?;
        let closed = refuse(ErrorCode::PortClosed, describe(port, &listening));
        return Err(Box::new(closed.with(|detail| detail.refusal = Some(TunnelRefusal { port, listening }))));
    };
    let counted = handle.tunnel();
    Ok(upgrade::switch(request, pending_upgrade, PROTOCOL, move |mut outside| async move {
        let _counted = counted;
        let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
    }))
}

/// The error message, with the ports that are open instead.
fn describe(port: u16, listening: &[ListeningPort]) -> String {
    let one = |l: &ListeningPort| {
        let process = l.process.as_ref().map(|p| format!(" ({})", p.command)).unwrap_or_default();
        format!("{}{process}", l.port)
    };
    let others: Vec<String> = listening.iter().map(one).collect();
    match others.as_slice() {
        [] => format!("nothing listens on port {port}, nor on any other"),
        others => format!("nothing listens on port {port}; these do: {}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Process;

    #[test]
    fn a_refusal_says_what_listens_instead() {
        let process = Some(Process { pid: 7, command: "node server.js".into() });
        let listening = [ListeningPort { port: 5173, address: "127.0.0.1".into(), process }];
        assert_eq!(
            describe(3000, &listening),
            "nothing listens on port 3000; these do: 5173 (node server.js)"
        );
        assert_eq!(describe(3000, &[]), "nothing listens on port 3000, nor on any other");
    }
}
