//! Why an operation did not get through the gateway. Nothing here contains a credential.

use super::limits::MESSAGE_MAX_CHARS;
use hostd_core::PushRefused;
use hyper::StatusCode;
use protocol::sanitize::one_line;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitFailure {
    /// The server wants another credential, or one at all.
    #[error("{server} refused the credential ({why}): {remedy}")]
    AuthFailed { server: String, why: String, remedy: String },
    #[error("there is no repository {remote}, or the credential does not see it")]
    NotFound { remote: String },
    /// The rules of the sandbox or of the host deny the server.
    #[error("{0}")]
    Denied(String),
    /// The host key of the server is not known, or another one.
    #[error("{0}")]
    HostKey(String),
    #[error("{0}")]
    Unreachable(String),
    #[error("{server} redirects to {to}, which is another server; use its address")]
    Redirected { server: String, to: String },
    #[error("{remote} is not a git HTTP server; check the address")]
    NotGit { remote: String },
    #[error("{0}")]
    PushRefused(#[from] PushRefused),
    #[error("git transfer exceeded {max_bytes} bytes; push or fetch fewer commits")]
    TooLarge { max_bytes: u64 },
    #[error("git transfer stalled for {seconds} s; check the server and repeat")]
    Stalled { seconds: u64 },
    /// The secret is missing, sealed, or cannot be sent.
    #[error("{0}")]
    Secret(String),
    #[error("the git grant has expired; start the operation again")]
    Ended,
}

impl GitFailure {
    /// Returns the status for git in the sandbox. Never 401: git would look for credentials of its own.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::AuthFailed { .. }
            | Self::Denied(_)
            | Self::HostKey(_)
            | Self::PushRefused(_)
            | Self::Secret(_)
            | Self::Ended => StatusCode::FORBIDDEN,
            Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unreachable(_) | Self::Redirected { .. } | Self::NotGit { .. } => StatusCode::BAD_GATEWAY,
            Self::Stalled { .. } => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Returns the message, of a bounded length: parts of it come from servers.
    pub fn message(&self) -> String {
        one_line(&self.to_string(), MESSAGE_MAX_CHARS)
    }
}
