//! Which repository on a server an operation is for: an address of the caller, or a remote of the repository.

use super::{super::error::CallError, problem::failed, runner::GitRunner};
use hostd_core::GitRemote;
use protocol::api::GitReason;

pub const DEFAULT_REMOTE: &str = "origin";
const NAME_MAX_BYTES: usize = 100;

/// A repository on a server, and the name that it has as a remote.
pub struct NamedRemote {
    pub name: Option<String>,
    pub remote: GitRemote,
}

/// An address is taken as it is; a name is looked up in the configuration of the repository. That is untrusted: what it
/// says is checked like an address of a caller, and rewritten addresses (`url.*.insteadOf`) are not followed.
pub async fn resolve(runner: &GitRunner<'_>, remote: Option<&str>) -> Result<NamedRemote, CallError> {
    let text = remote.unwrap_or(DEFAULT_REMOTE);
    if !is_remote_name(text) {
        let remote =
            GitRemote::parse(text).map_err(|error| CallError::invalid("remote", error.to_string()))?;
        return Ok(NamedRemote { name: None, remote });
    }
    for key in ["pushurl", "url"] {
        let key = format!("remote.{text}.{key}");
        if let Some(url) = runner.line(&["config", "--local", "--no-includes", "-z", "--get", &key]).await? {
            let remote = GitRemote::parse(&url).map_err(|error| {
                failed(GitReason::InvalidRemote, format!("{key} of the repository is not accepted: {error}"))
            })?;
            return Ok(NamedRemote { name: Some(text.to_owned()), remote });
        }
    }
    let message = format!("the repository has no remote {text}: pass the address of one as `remote`");
    Err(failed(GitReason::InvalidRemote, message))
}

pub fn is_remote_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    !text.is_empty() && text.len() <= NAME_MAX_BYTES && !text.starts_with('-') && text.bytes().all(plain)
}
