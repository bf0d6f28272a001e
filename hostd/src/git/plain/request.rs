//! The request that begins a connection of the plain git protocol. Pure.
//!
//! ```text
//!  LENGTH git-upload-pack /TOKEN/repo.git NUL host=… NUL [NUL version=2 NUL]
//! ```

use super::super::{
    limits::PLAIN_REQUEST_MAX_BYTES,
    route::{GitService, REPOSITORY},
};
use hostd_core::packet_length;

pub const LENGTH_DIGITS: usize = 4;

/// What git asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainRequest {
    pub token: String,
    pub service: GitService,
    /// The version of the protocol that git prefers.
    pub version: Option<GitVersion>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitVersion {
    One,
    Two,
}

impl GitVersion {
    /// Returns the value of `GIT_PROTOCOL`.
    pub fn parameter(self) -> &'static str {
        match self {
            Self::One => "version=1",
            Self::Two => "version=2",
        }
    }

    fn of_parameter(text: &str) -> Option<Self> {
        [Self::One, Self::Two].into_iter().find(|version| version.parameter() == text)
    }
}

/// Whether a connection that begins with this byte is of plain git: a length below 4096 begins with a zero, and no HTTP
/// method does.
pub fn is_plain_git(first: u8) -> bool {
    first == b'0'
}

/// Returns the number of bytes that follow the length.
pub fn rest_length(digits: [u8; LENGTH_DIGITS]) -> Option<usize> {
    packet_length(&digits).filter(|length| *length <= PLAIN_REQUEST_MAX_BYTES)?.checked_sub(LENGTH_DIGITS)
}

/// Parses what follows the length.
pub fn parse(packet: &[u8]) -> Option<PlainRequest> {
    let text = std::str::from_utf8(packet).ok()?;
    let mut parts = text.split('\0');
    let (service, path) = parts.next()?.trim_end_matches('\n').split_once(' ')?;
    let (token, repository) = path.strip_prefix('/')?.split_once('/')?;
    if token.is_empty() || repository != REPOSITORY {
        return None;
    }
    let version = parts.find_map(GitVersion::of_parameter);
    Some(PlainRequest { token: token.to_owned(), service: GitService::of_name(service)?, version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_that_of_git_or_none() {
        use GitService::{ReceivePack, UploadPack};
        for (packet, expected) in [
            ("git-upload-pack /t/repo.git\0host=127.0.0.1:900\0", Some((UploadPack, None))),
            ("git-upload-pack /t/repo.git", Some((UploadPack, None))),
            ("git-upload-pack /t/repo.git\n", Some((UploadPack, None))),
            ("git-upload-pack /t/repo.git\0host=h\0\0version=2\0", Some((UploadPack, Some(GitVersion::Two)))),
            (
                "git-upload-pack /t/repo.git\0host=h\0\0x=y\0version=1\0",
                Some((UploadPack, Some(GitVersion::One))),
            ),
            ("git-upload-pack /t/repo.git\0host=h\0\0version=2:x\0", Some((UploadPack, None))),
            ("git-receive-pack /t/repo.git\0host=h\0", Some((ReceivePack, None))),
            ("git-upload-archive /t/repo.git\0host=h\0", None),
            ("git-upload-pack t/repo.git\0", None),
            ("git-upload-pack /t/other.git\0", None),
            ("git-upload-pack /t/repo.git/x\0", None),
            ("git-upload-pack /t\0", None),
            ("git-upload-pack //repo.git\0", None),
            ("git-upload-pack", None),
            ("", None),
        ] {
            let expected =
                expected.map(|(service, version)| PlainRequest { token: "t".into(), service, version });
            assert_eq!(parse(packet.as_bytes()), expected, "{packet:?}");
        }
        assert_eq!(parse(b"git-upload-pack /\xff/repo.git"), None);
    }

    #[test]
    fn a_length_is_limited() {
        for (digits, expected) in [
            (b"0032", Some(46)),
            (b"0400", Some(1_020)),
            (b"0401", None),
            (b"0004", Some(0)),
            (b"0000", None),
            (b"+032", None),
        ] {
            assert_eq!(rest_length(*digits), expected, "{digits:?}");
        }
    }

    #[test]
    fn a_connection_is_told_apart_from_http_by_its_first_byte() {
        for method in ["GET", "POST", "CONNECT", "DELETE", "PRI", "ACL", "BIND", "get"] {
            assert!(!is_plain_git(method.as_bytes()[0]), "{method}");
        }
        assert!(is_plain_git(b"0032git-upload-pack"[0]));
    }
}
