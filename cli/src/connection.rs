//! Which hostd a command talks to, how it is verified, and with which token. The first that is given counts:
//!
//! ```text
//! --context ─▶ SLIPWAY_URL ─▶ SLIPWAY_CONTEXT ─▶ SLIPWAY_DATA_DIR ─▶ current context ─▶ the socket of this machine
//! ```
//!
//! A token stays with its address: that of a context goes to the URL of the context, `SLIPWAY_TOKEN` to `SLIPWAY_URL`.

use crate::{
    client::{Fingerprint, Scheme, ServerUrl, Target, Trust},
    contexts::{ContextName, ContextsError, LOCAL, SavedContexts},
    failure::Failure,
    secret::Secret,
};
use clap::Args;
use std::path::PathBuf;

/// Flags of every command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionFlags {
    /// Use the hostd of this context, see `slipway context`; `local` is the one of this machine
    #[arg(long, global = true, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// Verify the server by the certificates in this PEM file, and by no others
    #[arg(long, global = true, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Accept exactly the certificate with this SHA-256 fingerprint, whatever its names, issuer and dates
    #[arg(long, global = true, value_name = "SHA256")]
    pub fingerprint: Option<Fingerprint>,
    /// Accept any certificate: anyone on the way can read the token and everything else
    #[arg(long, global = true)]
    pub insecure: bool,
}

impl ConnectionFlags {
    /// Returns how the server is to be verified, where a flag says so.
    pub fn trust(&self) -> Result<Option<Trust>, Failure> {
        one_trust(self.ca_file.clone(), self.fingerprint, self.insecure)
            .ok_or_else(|| Failure::Usage("give one of --ca-file, --fingerprint and --insecure".to_owned()))
    }
}

/// Returns the one that is given, or `None` for more than one.
fn one_trust(
    ca_file: Option<PathBuf>,
    fingerprint: Option<Fingerprint>,
    insecure: bool,
) -> Option<Option<Trust>> {
    let given =
        [ca_file.map(Trust::CaFile), fingerprint.map(Trust::Pinned), insecure.then_some(Trust::Insecure)];
    let mut given = given.into_iter().flatten();
    let first = given.next();
    given.next().is_none().then_some(first)
}

/// The environment variables of a connection; empty ones are absent.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    pub url: Option<String>,
    pub token: Option<Secret>,
    pub ca_file: Option<String>,
    pub fingerprint: Option<String>,
    pub insecure: Option<String>,
    pub context: Option<String>,
    pub data_dir: Option<String>,
}

impl Environment {
    pub fn read() -> Self {
        let text = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            url: text("SLIPWAY_URL"),
            token: text("SLIPWAY_TOKEN").map(Secret::new),
            ca_file: text("SLIPWAY_CA_FILE"),
            fingerprint: text("SLIPWAY_FINGERPRINT"),
            insecure: text("SLIPWAY_INSECURE"),
            context: text("SLIPWAY_CONTEXT"),
            data_dir: text("SLIPWAY_DATA_DIR"),
        }
    }

    /// Returns the variable that comes before the current context, where one is set.
    pub fn overrides_current(&self) -> Option<&'static str> {
        let set = [
            (self.url.is_some(), "SLIPWAY_URL"),
            (self.context.is_some(), "SLIPWAY_CONTEXT"),
            (self.data_dir.is_some(), "SLIPWAY_DATA_DIR"),
        ];
        set.into_iter().find_map(|(set, name)| set.then_some(name))
    }

    fn data_dir(&self) -> Option<PathBuf> {
        self.data_dir.as_ref().map(PathBuf::from)
    }

    /// Returns how `SLIPWAY_URL` is verified.
    fn trust(&self) -> Result<Trust, Failure> {
        let wrong = |name: &str, why: &str| Failure::Usage(format!("{name} {why}"));
        let fingerprint = self.fingerprint.as_deref().map(str::parse).transpose();
        let fingerprint = fingerprint.map_err(|why: String| wrong("SLIPWAY_FINGERPRINT", &why))?;
        let insecure = match self.insecure.as_deref() {
            Some("1") => true,
            None | Some("0") => false,
            Some(_) => return Err(wrong("SLIPWAY_INSECURE", "must be 1 or 0")),
        };
        one_trust(self.ca_file.as_ref().map(PathBuf::from), fingerprint, insecure)
            .map(|trust| trust.unwrap_or(Trust::System))
            .ok_or_else(|| {
                wrong("SLIPWAY_CA_FILE, SLIPWAY_FINGERPRINT and SLIPWAY_INSECURE:", "only one may be set")
            })
    }
}

/// What chose a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `--context`; `None` is `local`.
    Flag(Option<ContextName>),
    Url,
    /// `SLIPWAY_CONTEXT`; `None` is `local`.
    Variable(Option<ContextName>),
    DataDir,
    Current(ContextName),
    Default,
}

impl Origin {
    /// Describes what chose the connection, as in `context prod (SLIPWAY_CONTEXT)`.
    pub fn describe(&self) -> String {
        let named = |name: &Option<ContextName>| name.as_ref().map_or(LOCAL, ContextName::as_str).to_owned();
        match self {
            Self::Flag(name) => format!("context {} (--context)", named(name)),
            Self::Url => "SLIPWAY_URL".to_owned(),
            Self::Variable(name) => format!("context {} (SLIPWAY_CONTEXT)", named(name)),
            Self::DataDir => format!("context {LOCAL} (SLIPWAY_DATA_DIR)"),
            Self::Current(name) => format!("context {name} (current)"),
            Self::Default => format!("context {LOCAL} (no other is current)"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    None,
    Given(Secret),
    /// Name of a token file of the contexts.
    File(String),
}

/// A connection as it was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    pub target: Target,
    pub token: TokenSource,
    pub origin: Origin,
}

impl Connection {
    /// Chooses. `contexts` is called only where they count, so that a broken file of contexts stops nothing else.
    pub fn choose(
        flags: &ConnectionFlags,
        environment: &Environment,
        contexts: impl FnOnce() -> Result<SavedContexts, ContextsError>,
    ) -> Result<Self, Failure> {
        let local =
            |origin| Self { target: Target::local(environment.data_dir()), token: TokenSource::None, origin };
        let flag = flags.context.as_deref().map(|text| parse_context("--context", text)).transpose()?;
        let connection = if let Some(name) = flag {
            match &name {
                Some(known) => of_context(&contexts()?, known, Origin::Flag(name.clone()))?,
                None => local(Origin::Flag(None)),
            }
        } else if let Some(url) = &environment.url {
            of_url(url, environment)?
        } else if let Some(text) = &environment.context {
            let name = parse_context("SLIPWAY_CONTEXT", text)?;
            match &name {
                Some(known) => of_context(&contexts()?, known, Origin::Variable(name.clone()))?,
                None => local(Origin::Variable(None)),
            }
        } else if environment.data_dir.is_some() {
            local(Origin::DataDir)
        } else {
            of_current(contexts())?.unwrap_or_else(|| local(Origin::Default))
        };
        connection.with_flags(flags)
    }

    /// Applies flags of verification, which are for `https` only.
    fn with_flags(mut self, flags: &ConnectionFlags) -> Result<Self, Failure> {
        let Some(given) = flags.trust()? else { return Ok(self) };
        match &mut self.target {
            Target::Url { url, trust } if url.scheme == Scheme::Https => *trust = given,
            Target::Url { .. } | Target::Socket(_) => {
                return Err(Failure::Usage(format!(
                    "--ca-file, --fingerprint and --insecure are for https://, and {} is not",
                    self.address()
                )));
            }
        }
        Ok(self)
    }

    pub fn address(&self) -> String {
        match &self.target {
            Target::Socket(path) => format!("the socket {}", path.display()),
            Target::Url { url, .. } => url.to_string(),
        }
    }

    /// Returns what the user is warned of at every command.
    pub fn warning(&self) -> Option<String> {
        let Target::Url { url, trust } = &self.target else { return None };
        let token = self.token != TokenSource::None;
        match (url.scheme, trust) {
            (Scheme::Https, Trust::Insecure) => Some(format!(
                "slipway: WARNING: the certificate of {url} is not verified (--insecure): anyone on the way can read \
                 and change everything{}",
                if token { ", and take the token" } else { "" }
            )),
            (Scheme::Http, _) if token && !url.is_loopback() => Some(format!(
                "slipway: WARNING: the token is sent unencrypted to {url}: use https://, or a tunnel (ssh -L)"
            )),
            (Scheme::Http | Scheme::Https, _) => None,
        }
    }
}

/// Parses the name of a context; `None` is `local`.
fn parse_context(source: &str, text: &str) -> Result<Option<ContextName>, Failure> {
    if text == LOCAL {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|why| Failure::Usage(format!("{source} {why}")))
}

fn of_url(text: &str, environment: &Environment) -> Result<Connection, Failure> {
    let wrong = |why: String| Failure::Usage(format!("SLIPWAY_URL is {text:?}: {why}"));
    let url: ServerUrl = text.parse().map_err(wrong)?;
    let token = environment.token.clone().map_or(TokenSource::None, TokenSource::Given);
    Ok(Connection { target: Target::Url { url, trust: environment.trust()? }, token, origin: Origin::Url })
}

fn of_context(saved: &SavedContexts, name: &ContextName, origin: Origin) -> Result<Connection, Failure> {
    let context = saved.get(name)?;
    let target = Target::Url { url: context.url.clone(), trust: context.trust() };
    let token = context.token_file.clone().map_or(TokenSource::None, TokenSource::File);
    Ok(Connection { target, token, origin })
}

/// Returns the current context; `None` where there is none.
fn of_current(contexts: Result<SavedContexts, ContextsError>) -> Result<Option<Connection>, Failure> {
    let saved = match contexts {
        // Without a home directory there is no current context.
        Err(ContextsError::NoHome) => return Ok(None),
        contexts => contexts?,
    };
    let Some(name) = &saved.current else { return Ok(None) };
    of_context(&saved, name, Origin::Current(name.clone())).map(Some)
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
