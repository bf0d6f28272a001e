//! What hostd makes of messages of an SSH server: its host key is judged, and a server that opens channels of its own
//! (which the library would accept) ends the connection.

use super::{
    super::{failure::GitFailure, reach::no_response},
    host_key::HostKeys,
};
use hostd_core::{GitRemote, egress::Destination};
use protocol::api::SecretName;
use russh::{
    Channel,
    client::{ChannelOpenHandle, Handler, Msg, Session},
    keys::PublicKeyOrCertificate,
};

/// hostd asks for no forwarding, so that no server has a reason.
const NO_CHANNELS: ConnectError = ConnectError::Ssh(russh::Error::RequestDenied);

/// Judges a server by its host key.
pub struct ServerCheck {
    pub host_keys: HostKeys,
    pub server: Destination,
    pub secret: SecretName,
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    Ssh(#[from] russh::Error),
    #[error(transparent)]
    Refused(GitFailure),
}

impl ConnectError {
    pub fn for_server(self, remote: &GitRemote) -> GitFailure {
        match self {
            Self::Ssh(error) => no_response(remote, &error.to_string()),
            Self::Refused(failure) => failure,
        }
    }
}

impl Handler for ServerCheck {
    type Error = ConnectError;

    async fn check_server_key(&mut self, key: &PublicKeyOrCertificate) -> Result<bool, ConnectError> {
        match key {
            PublicKeyOrCertificate::PublicKey { key, .. } => {
                self.host_keys.check(&self.server, &self.secret, key).map_err(ConnectError::Refused)?;
                Ok(true)
            }
            // They are not asked for.
            PublicKeyOrCertificate::Certificate(_) => Ok(false),
        }
    }

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), ConnectError> {
        Err(NO_CHANNELS)
    }

    async fn server_channel_open_forwarded_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), ConnectError> {
        Err(NO_CHANNELS)
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), ConnectError> {
        Err(NO_CHANNELS)
    }

    async fn server_channel_open_session(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), ConnectError> {
        Err(NO_CHANNELS)
    }

    async fn server_channel_open_direct_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), ConnectError> {
        Err(NO_CHANNELS)
    }

    async fn server_channel_open_direct_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), ConnectError> {
        Err(NO_CHANNELS)
    }

    async fn server_channel_open_x11(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), ConnectError> {
        Err(NO_CHANNELS)
    }
}
