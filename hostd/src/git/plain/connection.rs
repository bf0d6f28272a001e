//! Serves one connection of the plain git protocol from a sandbox: its grant, then an SSH server until either ends.

use super::{
    super::{
        bodies::Transfer,
        failure::GitFailure,
        gateway::{GatewayInner, GitGateway},
        limits::{REFUSAL_DELAY_MS, REFUSED_LINGER_MAX_BYTES, REFUSED_LINGER_MS},
        reach::open_tcp,
        ssh::{self, SshCommand, SshCredential},
    },
    request::{LENGTH_DIGITS, PlainRequest, parse, rest_length},
};
use hostd_edge::egress::SandboxEgress;
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, sink},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::{Instant, sleep, timeout},
};
use tracing::debug;

impl GitGateway {
    /// Serves a connection that came through the listener of this sandbox.
    pub async fn serve_plain(&self, egress: &Arc<SandboxEgress>, stream: TcpStream, request_max: Duration) {
        let (mut reader, mut writer) = stream.into_split();
        let request = match timeout(request_max, read_request(&mut reader)).await {
            Ok(Ok(request)) => request,
            Ok(Err(error)) => return debug!(%error, "failed to read a git request"),
            Err(_) => return debug!("a git request took too long"),
        };
        if let Err(failure) = self.inner.serve_plain(egress, request, (&mut reader, &mut writer)).await {
            // git may be gone.
            let _ = refuse(&mut reader, writer, &failure).await;
        }
    }
}

impl GatewayInner {
    async fn serve_plain(
        &self,
        egress: &Arc<SandboxEgress>,
        request: Option<PlainRequest>,
        client: (&mut OwnedReadHalf, &mut OwnedWriteHalf),
    ) -> Result<(), GitFailure> {
        let no_path = || GitFailure::Denied("there is no such path here".to_owned());
        let request = request.ok_or_else(no_path)?;
        let Some(grant) = self.grants.find(&egress.id(), &request.token, Instant::now()) else {
            sleep(Duration::from_millis(REFUSAL_DELAY_MS)).await;
            return Err(GitFailure::Ended);
        };
        if !grant.remote.is_ssh() {
            return Err(no_path());
        }
        let transfer = Transfer::new(grant.clone(), egress.clone());
        let exchange = Box::pin(self.exchange_plain(&transfer, &request, client));
        let ended = tokio::select! {
            ended = exchange => ended,
            // Dropping the exchange closes its connection.
            failure = transfer.clone().until_cut() => Err(failure),
        };
        if let Err(failure) = &ended {
            debug!(sandbox = %grant.sandbox, remote = %grant.remote, %failure, "git request failed");
            grant.note_failure(failure);
        }
        ended
    }

    async fn exchange_plain(
        &self,
        transfer: &Arc<Transfer>,
        request: &PlainRequest,
        client: (&mut OwnedReadHalf, &mut OwnedWriteHalf),
    ) -> Result<(), GitFailure> {
        let (grant, egress) = (&transfer.grant, &transfer.egress);
        request.service.check(&grant.access)?;
        Self::admit(egress).await?;
        let secret = self.secret(grant, egress).await?;
        let (name, value) = secret.ok_or_else(|| GitFailure::Secret(no_key(&grant.remote.secret_name())))?;
        let credential = SshCredential::parse(&name, value.as_str(), &self.known_hosts).await?;
        drop(value);
        let command = SshCommand::new(&grant.remote, request.service, request.version);
        let stream = open_tcp(&self.connector, egress, &grant.remote).await?;
        let session = ssh::open(stream, &grant.remote, &credential, &command).await?;
        drop(credential);
        ssh::relay(session, client, transfer).await
    }
}

fn no_key(secret: &str) -> String {
    format!("there is no key: set it with `slipway secret set {secret}`")
}

/// Reads a request; `None` where it is none that is known.
async fn read_request(reader: &mut OwnedReadHalf) -> io::Result<Option<PlainRequest>> {
    let mut digits = [0; LENGTH_DIGITS];
    reader.read_exact(&mut digits).await?;
    let Some(length) = rest_length(digits) else { return Ok(None) };
    let mut packet = vec![0; length];
    reader.read_exact(&mut packet).await?;
    Ok(parse(&packet))
}

/// Says why to git, and reads what it still sends: otherwise the kernel could drop the message.
async fn refuse(
    reader: &mut OwnedReadHalf,
    mut writer: OwnedWriteHalf,
    failure: &GitFailure,
) -> io::Result<()> {
    writer.write_all(refusal(failure).as_bytes()).await?;
    writer.shutdown().await?;
    let rest = async { copy(&mut reader.take(REFUSED_LINGER_MAX_BYTES), &mut sink()).await };
    timeout(Duration::from_millis(REFUSED_LINGER_MS), rest).await.map_or(Ok(()), |read| read.map(drop))
}

/// Returns a packet that git shows to its user.
fn refusal(failure: &GitFailure) -> String {
    let message = failure.message();
    let text = match failure {
        // After its commands a push reads messages in bands; the third is of errors.
        GitFailure::PushRefused(_) => format!("\u{3}{message}\n"),
        GitFailure::AuthFailed { .. }
        | GitFailure::NotFound { .. }
        | GitFailure::Denied(_)
        | GitFailure::HostKey(_)
        | GitFailure::Unreachable(_)
        | GitFailure::Redirected { .. }
        | GitFailure::NotGit { .. }
        | GitFailure::TooLarge { .. }
        | GitFailure::Stalled { .. }
        | GitFailure::Secret(_)
        | GitFailure::Ended => format!("ERR {message}\n"),
    };
    format!("{:04x}{text}", LENGTH_DIGITS + text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostd_core::PushRefused;

    #[test]
    fn a_refusal_is_a_packet_that_git_shows() {
        assert_eq!(
            refusal(&GitFailure::Ended),
            "003dERR the git grant has expired; start the operation again\n"
        );
        let push = refusal(&PushRefused::Malformed.into());
        assert_eq!(push, "001b\u{3}the push is malformed\n");
    }
}
