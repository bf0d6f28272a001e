//! The command that an SSH server runs. Pure.

use super::super::{plain::GitVersion, route::GitService};
use hostd_core::GitRemote;

pub struct SshCommand {
    /// For the shell of the server.
    pub line: Vec<u8>,
    /// The value of `GIT_PROTOCOL`.
    pub protocol: Option<&'static str>,
}

impl SshCommand {
    pub fn new(remote: &GitRemote, service: GitService, version: Option<GitVersion>) -> Self {
        let mut line = format!("{} ", service.name()).into_bytes();
        line.extend(quoted(&remote.path_on_server()));
        // git does not push with another protocol than the first, whose commands are checked.
        let version = match service {
            GitService::UploadPack => version,
            GitService::ReceivePack => None,
        };
        Self { line, protocol: version.map(GitVersion::parameter) }
    }
}

/// Quotes as git does: servers that are no shell parse it.
fn quoted(path: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in path {
        match byte {
            b'\'' | b'!' => quoted.extend([b'\'', b'\\', *byte, b'\'']),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_one_of_git_with_a_quoted_path() {
        use GitService::{ReceivePack, UploadPack};
        let two = Some(GitVersion::Two);
        for (url, service, version, expected) in [
            ("git@host:o/r.git", UploadPack, None, ("git-upload-pack 'o/r.git'", None)),
            ("ssh://host/o/r.git", UploadPack, two, ("git-upload-pack '/o/r.git'", Some("version=2"))),
            ("git@host:/o/r.git", ReceivePack, two, ("git-receive-pack '/o/r.git'", None)),
            ("ssh://host/a%27%3bid", UploadPack, None, (r"git-upload-pack '/a'\'';id'", None)),
            ("ssh://host/a%21b%20c", UploadPack, None, (r"git-upload-pack '/a'\!'b c'", None)),
        ] {
            let command = SshCommand::new(&GitRemote::parse(url).expect(url), service, version);
            assert_eq!(String::from_utf8(command.line).as_deref(), Ok(expected.0), "{url}");
            assert_eq!(command.protocol, expected.1, "{url}");
        }
    }
}
