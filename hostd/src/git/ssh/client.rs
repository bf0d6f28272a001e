//! Opens a session: the host key is checked before anything else is sent, then the key authenticates, then git runs.

use super::{
    super::{
        failure::GitFailure,
        limits::{SSH_MESSAGES_WAITING_MAX, SSH_SETUP_MAX_MS, SSH_WINDOW_BYTES},
        reach::no_response,
    },
    command::SshCommand,
    credential::SshCredential,
    cut_stream::CutStream,
    host_key::HostKeys,
    server_check::ServerCheck,
};
use hostd_core::{GitRemote, GitTransport, egress::Destination};
use russh::{
    Channel, Preferred,
    client::{AuthResult, Config, Handle, Msg, connect_stream},
    keys::{HashAlg, PrivateKeyWithHashAlg},
};
use std::{borrow::Cow, sync::Arc, time::Duration};
use tokio::{net::TcpStream, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A session in which a server runs git. Its connection ends when this is dropped.
pub struct SshSession {
    pub channel: Channel<Msg>,
    /// Ends the connection in the library when the last one is dropped.
    pub(super) held: HeldConnection,
}

pub(super) struct HeldConnection {
    _handle: Handle<ServerCheck>,
    _cut: DropGuard,
}

/// Opens a session on a connection, within a time limit.
pub async fn open(
    stream: TcpStream,
    remote: &GitRemote,
    credential: &SshCredential,
    command: &SshCommand,
) -> Result<SshSession, GitFailure> {
    let within = Duration::from_millis(SSH_SETUP_MAX_MS);
    let opened = timeout(within, open_session(stream, remote, credential, command)).await;
    opened.unwrap_or_else(|_| Err(no_response(remote, "it took too long")))
}

async fn open_session(
    stream: TcpStream,
    remote: &GitRemote,
    credential: &SshCredential,
    command: &SshCommand,
) -> Result<SshSession, GitFailure> {
    let cut = CancellationToken::new();
    let stream = CutStream::new(stream, &cut);
    let cut = cut.drop_guard();
    let check = ServerCheck {
        host_keys: credential.host_keys.clone(),
        server: remote.server().clone(),
        secret: credential.secret.clone(),
    };
    let config = Arc::new(config(&credential.host_keys, remote.server()));
    let connected = connect_stream(config, stream, check).await;
    let mut handle = connected.map_err(|error| error.for_server(remote))?;
    let broken = |error: russh::Error| no_response(remote, &error.to_string());
    authenticate(&mut handle, remote, credential).await?;
    let channel = handle.channel_open_session().await.map_err(broken)?;
    if let Some(protocol) = command.protocol {
        // A server that does not take it speaks the first version.
        channel.set_env(false, "GIT_PROTOCOL", protocol).await.map_err(broken)?;
    }
    channel.exec(true, command.line.clone()).await.map_err(broken)?;
    Ok(SshSession { channel, held: HeldConnection { _handle: handle, _cut: cut } })
}

fn config(host_keys: &HostKeys, server: &Destination) -> Config {
    Config {
        window_size: SSH_WINDOW_BYTES,
        channel_buffer_size: SSH_MESSAGES_WAITING_MAX,
        preferred: Preferred { key: Cow::Owned(host_keys.preferred_types(server)), ..Preferred::DEFAULT },
        ..Config::default()
    }
}

async fn authenticate(
    handle: &mut Handle<ServerCheck>,
    remote: &GitRemote,
    credential: &SshCredential,
) -> Result<(), GitFailure> {
    let broken = |error: russh::Error| no_response(remote, &error.to_string());
    let user = match remote.transport() {
        GitTransport::Ssh { user, .. } => user.clone(),
        GitTransport::Https | GitTransport::Http => {
            return Err(GitFailure::Denied(format!("{remote} is not reached with SSH")));
        }
    };
    let hash = match credential.key.algorithm().is_rsa() {
        // Signatures with SHA-1 are not made.
        true => handle.best_supported_rsa_hash().await.map_err(broken)?.flatten().or(Some(HashAlg::Sha256)),
        false => None,
    };
    let key = PrivateKeyWithHashAlg::new(credential.key.clone(), hash);
    match handle.authenticate_publickey(user, key).await.map_err(broken)? {
        AuthResult::Success => Ok(()),
        AuthResult::Failure { .. } => {
            let public = credential.key.public_key().fingerprint(HashAlg::Sha256);
            Err(GitFailure::AuthFailed {
                server: remote.host_header(),
                why: "public key".to_owned(),
                remedy: format!(
                    "add the public key of the secret {} ({public}) as a deploy key of {remote}",
                    credential.secret
                ),
            })
        }
    }
}
