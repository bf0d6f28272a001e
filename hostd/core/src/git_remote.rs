//! The address of a git repository on a server, as a caller or a repository spells it. Pure.
//!
//! ```text
//!  https://host/owner/repo.git   ssh://git@host/owner/repo.git   git@host:owner/repo.git
//! ```
//!
//! Whether the server may be reached is decided later, by the addresses that its name has (`egress`).

use crate::egress::{Destination, Host};
use std::fmt;

/// Longest address of a repository.
pub const REMOTE_MAX_BYTES: usize = 2_048;
const HTTPS_PORT: u16 = 443;
const HTTP_PORT: u16 = 80;
const SSH_PORT: u16 = 22;
/// What the name of a secret begins with, before its first dot: of a token for git over HTTP, and of a private key.
const TOKEN_SECRET: &str = "git";
const KEY_SECRET: &str = "ssh";

/// A repository on a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GitRemote {
    transport: GitTransport,
    server: Destination,
    /// Begins with a slash and ends without one.
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GitTransport {
    Https,
    /// Without encryption: for servers that are not public, where the operator allows them.
    Http,
    Ssh {
        user: String,
        /// Whether the path begins at the home of the user, as in `git@host:path`.
        is_from_home: bool,
    },
}

/// The software or service of a server, as far as its name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitProvider {
    Github,
    Gitlab,
    Bitbucket,
    Gitea,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRemote {
    #[error("the address of a repository has 1 to {REMOTE_MAX_BYTES} bytes")]
    Length,
    #[error("the address of a repository must be https://HOST/PATH, ssh://git@HOST/PATH or git@HOST:PATH")]
    Form,
    #[error("the address of a repository must not contain a user or password; use a secret")]
    User,
    #[error("the address of a repository names no valid host")]
    Host,
    #[error("the path of the repository is not valid: use letters, digits and -._~+@ between slashes")]
    Path,
}

impl GitRemote {
    pub fn parse(text: &str) -> Result<Self, InvalidRemote> {
        if text.is_empty() || text.len() > REMOTE_MAX_BYTES {
            return Err(InvalidRemote::Length);
        }
        if text.starts_with('-') || text.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(InvalidRemote::Form);
        }
        match text.split_once("://") {
            Some((scheme, rest)) => Self::parse_url(scheme, rest),
            None => Self::parse_scp(text),
        }
    }

    fn parse_url(scheme: &str, rest: &str) -> Result<Self, InvalidRemote> {
        let (authority, path) = rest.split_once('/').ok_or(InvalidRemote::Path)?;
        let (user, server) = match authority.rsplit_once('@') {
            Some((user, server)) => (Some(user), server),
            None => (None, authority),
        };
        let (transport, port) = match (scheme.to_ascii_lowercase().as_str(), user) {
            ("https", None) => (GitTransport::Https, HTTPS_PORT),
            ("http", None) => (GitTransport::Http, HTTP_PORT),
            ("ssh", user) => {
                let user = ssh_user(user.unwrap_or("git"))?;
                (GitTransport::Ssh { user, is_from_home: false }, SSH_PORT)
            }
            ("https" | "http", Some(_)) => return Err(InvalidRemote::User),
            _ => return Err(InvalidRemote::Form),
        };
        let server = Destination::parse(server, Some(port)).map_err(|_| InvalidRemote::Host)?;
        Ok(Self { transport, server: checked(server)?, path: repository_path(path)? })
    }

    /// `user@host:path`, which is relative to the home of the user, or `user@host:/path`.
    fn parse_scp(text: &str) -> Result<Self, InvalidRemote> {
        let (login, path) = text.split_once(':').ok_or(InvalidRemote::Form)?;
        let (user, host) = login.split_once('@').ok_or(InvalidRemote::Form)?;
        let host = Host::parse(host).map_err(|_| InvalidRemote::Host)?;
        let server = checked(Destination { host, port: SSH_PORT })?;
        let absolute = path.strip_prefix('/');
        let transport = GitTransport::Ssh { user: ssh_user(user)?, is_from_home: absolute.is_none() };
        Ok(Self { transport, server, path: repository_path(absolute.unwrap_or(path))? })
    }

    pub fn transport(&self) -> &GitTransport {
        &self.transport
    }

    pub fn server(&self) -> &Destination {
        &self.server
    }

    /// Whether the server is reached with TLS.
    pub fn is_secure(&self) -> bool {
        self.transport == GitTransport::Https
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the path as an argument of `git-upload-pack` on an SSH server, not quoted.
    pub fn path_on_server(&self) -> Vec<u8> {
        match &self.transport {
            GitTransport::Ssh { is_from_home: true, .. } => self.path[1..].into(),
            GitTransport::Https | GitTransport::Http | GitTransport::Ssh { is_from_home: false, .. } => {
                let path = unescaped(&self.path);
                // `ssh://host/~ann/x` is in the home of ann.
                if path.starts_with(b"/~") { path[1..].into() } else { path }
            }
        }
    }

    /// Returns the value of the header `Host`.
    pub fn host_header(&self) -> String {
        self.authority()
    }

    /// Returns the same repository over HTTP. Known hosting services serve both under one path; of another server
    /// that is reached with SSH nothing is known.
    pub fn over_http(&self) -> Option<Self> {
        match (&self.transport, self.provider()) {
            (GitTransport::Https | GitTransport::Http, _) => Some(self.clone()),
            (GitTransport::Ssh { .. }, GitProvider::Other) => None,
            (
                GitTransport::Ssh { .. },
                GitProvider::Github | GitProvider::Gitlab | GitProvider::Bitbucket | GitProvider::Gitea,
            ) => {
                let server = Destination { host: self.server.host.clone(), port: HTTPS_PORT };
                (self.server.port == SSH_PORT).then(|| Self {
                    transport: GitTransport::Https,
                    server,
                    path: self.path.clone(),
                })
            }
        }
    }

    /// Returns the same repository as it is reached: with SSH if there is a key for its server, else over HTTP. `secret`
    /// is the one that the operation names; `has_key` tells whether there is a secret `ssh.HOST`.
    pub fn reached(&self, secret: Option<&str>, has_key: bool) -> Option<Self> {
        match &self.transport {
            GitTransport::Https | GitTransport::Http => Some(self.clone()),
            GitTransport::Ssh { .. } => match secret.map_or(has_key, |name| self.accepts_secret(name)) {
                true => Some(self.clone()),
                false => self.over_http(),
            },
        }
    }

    pub fn is_ssh(&self) -> bool {
        match self.transport {
            GitTransport::Ssh { .. } => true,
            GitTransport::Https | GitTransport::Http => false,
        }
    }

    pub fn provider(&self) -> GitProvider {
        let Host::Name(name) = &self.server.host else { return GitProvider::Other };
        let begins = |label: &str| name.split('.').next() == Some(label);
        match name.as_str() {
            "github.com" => GitProvider::Github,
            "gitlab.com" => GitProvider::Gitlab,
            "bitbucket.org" => GitProvider::Bitbucket,
            "codeberg.org" | "gitea.com" => GitProvider::Gitea,
            _ if begins("github") => GitProvider::Github,
            _ if begins("gitlab") => GitProvider::Gitlab,
            _ if begins("bitbucket") => GitProvider::Bitbucket,
            _ if begins("gitea") || begins("forgejo") => GitProvider::Gitea,
            _ => GitProvider::Other,
        }
    }

    /// Returns the name of the secret with the credential for this server: `git.HOST`, or `ssh.HOST` of a key, and
    /// `git.HOST_PORT` where the port is not the default one.
    pub fn secret_name(&self) -> String {
        format!("{}.{}", self.secret_kind(), self.secret_host())
    }

    /// Returns the form of the names of further secrets for this server.
    pub fn labelled_secret_name(&self) -> String {
        format!("{}-LABEL.{}", self.secret_kind(), self.secret_host())
    }

    /// Whether a secret of this name may be used at this server, by this transport: `git.HOST`, or `git-LABEL.HOST`
    /// where there are several. The name binds a credential to its server, so that none can be sent to another one.
    pub fn accepts_secret(&self, name: &str) -> bool {
        let (wanted, Some((kind, host))) = (self.secret_kind(), name.split_once('.')) else { return false };
        let labelled = || kind.strip_prefix(wanted).is_some_and(|label| label.starts_with('-'));
        host == self.secret_host() && (kind == wanted || labelled())
    }

    /// Whether a secret of this name may be used at this server, by the transport that the secret is for.
    pub fn accepts_any_secret(&self, name: &str) -> bool {
        self.accepts_secret(name) || self.over_http().is_some_and(|http| http.accepts_secret(name))
    }

    fn secret_kind(&self) -> &'static str {
        if self.is_ssh() { KEY_SECRET } else { TOKEN_SECRET }
    }

    /// Without encryption the port is always named, so that a credential for https goes nowhere in clear text.
    fn secret_host(&self) -> String {
        let authority = match self.transport {
            GitTransport::Http => self.server.to_string(),
            GitTransport::Https | GitTransport::Ssh { .. } => self.authority(),
        };
        authority.replace(':', "_")
    }

    fn authority(&self) -> String {
        let implied = match self.transport {
            GitTransport::Https => HTTPS_PORT,
            GitTransport::Http => HTTP_PORT,
            GitTransport::Ssh { .. } => SSH_PORT,
        };
        match self.server.port == implied {
            true => self.server.host.to_string(),
            false => self.server.to_string(),
        }
    }
}

impl fmt::Display for GitRemote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (authority, path) = (self.authority(), &self.path);
        match &self.transport {
            GitTransport::Https => write!(f, "https://{authority}{path}"),
            GitTransport::Http => write!(f, "http://{authority}{path}"),
            GitTransport::Ssh { user, is_from_home: true } => write!(f, "{user}@{authority}:{}", &path[1..]),
            GitTransport::Ssh { user, is_from_home: false } => write!(f, "ssh://{user}@{authority}{path}"),
        }
    }
}

impl GitProvider {
    /// Returns the user name that goes with a token.
    pub fn token_user(self) -> &'static str {
        match self {
            Self::Github => "x-access-token",
            Self::Gitlab => "oauth2",
            Self::Bitbucket => "x-token-auth",
            // They take any name.
            Self::Gitea | Self::Other => "git",
        }
    }
}

/// Returns the user and password for a server from the value of a secret: `user:password`, or a token alone.
pub fn login_of(value: &str, provider: GitProvider) -> (&str, &str) {
    let value = value.trim_end_matches(['\r', '\n']);
    value.split_once(':').unwrap_or((provider.token_user(), value))
}

fn ssh_user(user: &str) -> Result<String, InvalidRemote> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let good = !user.is_empty() && !user.starts_with('-') && user.bytes().all(plain);
    if good { Ok(user.to_owned()) } else { Err(InvalidRemote::User) }
}

/// A name that begins with a dash could be read as an option by another program.
fn checked(server: Destination) -> Result<Destination, InvalidRemote> {
    match &server.host {
        Host::Name(name) if name.starts_with('-') => Err(InvalidRemote::Host),
        Host::Name(_) | Host::Address(_) => Ok(server),
    }
}

/// Checks a path without its first slash.
fn repository_path(path: &str) -> Result<String, InvalidRemote> {
    let path = path.trim_end_matches('/');
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+@%".contains(&byte);
    let segment = |segment: &str| {
        !matches!(segment, "" | "." | "..") && !segment.starts_with('-') && segment.bytes().all(plain)
    };
    let good = !path.is_empty() && path.split('/').all(segment) && has_plain_escapes(path);
    if good { Ok(format!("/{path}")) } else { Err(InvalidRemote::Path) }
}

/// Whether each escape is complete and means neither a dot, a slash nor a control character.
fn has_plain_escapes(path: &str) -> bool {
    path.split('%').skip(1).all(|rest| {
        let byte = rest.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let is_hex = rest.bytes().take(2).all(|digit| digit.is_ascii_hexdigit());
        is_hex && byte.is_some_and(|byte| byte >= b' ' && byte != 0x7f && !b"./\\%".contains(&byte))
    })
}

/// Replaces escapes, which are known to be complete.
fn unescaped(path: &str) -> Vec<u8> {
    let mut parts = path.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.extend(part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()));
        bytes.extend_from_slice(part.get(2..).unwrap_or_default().as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests;
