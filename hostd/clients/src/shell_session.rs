//! Sessions of a shell: the working directory and the exported variables of one command are those of the next.
//!
//! The state of a session is a file in the home directory of the sandbox, written by the shell at the end of each command
//! and read at the beginning of the next. hostd keeps nothing, so a restart changes nothing, and the session ends with the
//! sandbox. The file belongs to the sandbox's user, who may do all that it says anyway.

use crate::{ApiClient, ApiFailure, percent};
use axum::body::Body;
use hyper::{
    Method,
    header::{HeaderValue, IF_NONE_MATCH},
};
use protocol::api::{ApiErrorCode, FileView, SandboxId};
use std::{collections::BTreeMap, fmt::Write};

/// Longest name of a session, in characters.
pub const NAME_MAX_CHARS: usize = 128;
/// Relative to the home directory.
const DIRECTORY: &str = ".local/state/slipway/sessions";
const HOME: &str = "/home/sandbox";

/// Reads the state, runs what follows, and writes the state, also where the command leaves by `exit`.
const PROLOGUE: &str = r#"__slipway_state=$1 __slipway_cwd=$2 __slipway_shown=$3; shift 3
. "$__slipway_state" || exit
__slipway_save() {
  { printf 'cd -- %q\n' "$PWD"; export -p; } >"$__slipway_state.$$" && mv -f -- "$__slipway_state.$$" "$__slipway_state"
}
trap __slipway_save EXIT
__slipway_enter() { cd -- "$1" && if [ "$2" -ef . ]; then cd -- "$2"; fi; }
[ -z "$__slipway_cwd" ] || __slipway_enter "$__slipway_cwd" "$__slipway_shown" || exit
"#;

/// A name that is safe in the name of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionName(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name of a session is 1 to {NAME_MAX_CHARS} of A-Z a-z 0-9 . _ -")]
pub struct InvalidSessionName;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a variable")]
pub struct InvalidVariable(String);

/// What a session runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionCommand {
    /// A program or a builtin of the shell, and its arguments.
    Argv(Vec<String>),
    /// A script.
    Script(String),
}

/// A working directory. The shell shows it under its other name, where the image has that name for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionDirectory {
    pub path: String,
    pub shown: Option<String>,
}

/// What a session begins with.
#[derive(Debug, Clone, Default)]
pub struct SessionStart {
    pub cwd: Option<SessionDirectory>,
    pub env: BTreeMap<String, String>,
}

impl SessionName {
    pub fn parse(text: &str) -> Result<Self, InvalidSessionName> {
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let fits = (1..=NAME_MAX_CHARS).contains(&text.len()) && text.bytes().all(safe);
        fits.then(|| Self(text.to_owned())).ok_or(InvalidSessionName)
    }

    pub fn generate() -> Self {
        Self(ulid::Ulid::generate().to_string().to_lowercase())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The prefix keeps `.` and `..` from being names of files.
    fn file(&self) -> String {
        format!("{DIRECTORY}/s-{}", self.0)
    }

    fn url(&self, sandbox: &SandboxId, what: &str) -> String {
        format!("/v1/sandboxes/{sandbox}/files/{what}?path={}", percent::encode(self.file().as_bytes()))
    }

    /// Creates the session; a conflict where there is one of this name.
    pub async fn create(
        &self,
        api: &ApiClient,
        sandbox: &SandboxId,
        start: &SessionStart,
    ) -> Result<(), ApiFailure> {
        let script = initial_state(start);
        let script =
            script.map_err(|error| ApiFailure::new(ApiErrorCode::InvalidRequest, error.to_string()))?;
        let mut request =
            ApiClient::request(Method::PUT, &format!("{}&mode=0600", self.url(sandbox, "content")));
        request.headers_mut().insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        *request.body_mut() = Body::from(script);
        api.send(request).await.map(drop)
    }

    /// Fails with not found where there is no such session.
    pub async fn check(&self, api: &ApiClient, sandbox: &SandboxId) -> Result<(), ApiFailure> {
        api.get::<FileView>(&self.url(sandbox, "stat")).await.map(drop)
    }

    pub async fn delete(&self, api: &ApiClient, sandbox: &SandboxId) -> Result<(), ApiFailure> {
        api.send(ApiClient::request(Method::DELETE, &self.url(sandbox, "content"))).await.map(drop)
    }

    /// Returns the command line that runs a command in this session.
    pub fn argv(&self, cwd: Option<SessionDirectory>, command: SessionCommand) -> Vec<String> {
        let (run, arguments) = match command {
            SessionCommand::Argv(argv) => ("\"$@\"", argv),
            SessionCommand::Script(script) => ("eval \"$1\"", vec![script]),
        };
        let shell = ["bash".to_owned(), "-c".to_owned(), format!("{PROLOGUE}{run}"), "bash".to_owned()];
        let SessionDirectory { path, shown } = cwd.unwrap_or_default();
        let state = [format!("{HOME}/{}", self.file()), path, shown.unwrap_or_default()];
        shell.into_iter().chain(state).chain(arguments).collect()
    }
}

fn initial_state(start: &SessionStart) -> Result<String, InvalidVariable> {
    let mut script = String::new();
    for (name, value) in &start.env {
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || name.as_bytes()[0].is_ascii_digit() || !name.bytes().all(safe) {
            return Err(InvalidVariable(name.clone()));
        }
        writeln!(script, "export {name}={}", quoted(value)).expect("a string takes everything");
    }
    if let Some(SessionDirectory { path, shown }) = &start.cwd {
        let shown = quoted(shown.as_deref().unwrap_or_default());
        let line = format!("cd -- {} && if [ {shown} -ef . ]; then cd -- {shown}; fi", quoted(path));
        writeln!(script, "{line}").expect("a string takes everything");
    }
    Ok(script)
}

/// A word of a shell script.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_safe_in_a_path() {
        for good in ["a", "..", ".", "A-b_c.9", &"x".repeat(128)] {
            let name = SessionName::parse(good).expect(good);
            assert_eq!(name.file(), format!(".local/state/slipway/sessions/s-{good}"));
        }
        for bad in ["", "a/b", "a b", "ü", "a\n", &"x".repeat(129)] {
            assert_eq!(SessionName::parse(bad), Err(InvalidSessionName), "{bad:?}");
        }
    }

    #[test]
    fn a_session_begins_with_its_directory_and_variables() {
        let start = |env: &[(&str, &str)]| SessionStart {
            cwd: Some(SessionDirectory { path: "/tmp/it's".to_owned(), shown: Some("/it".to_owned()) }),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        };
        assert_eq!(
            initial_state(&start(&[("A", "$(id)'"), ("_b1", "")])).expect("good names"),
            "export A='$(id)'\\'''\nexport _b1=''\n\
             cd -- '/tmp/it'\\''s' && if [ '/it' -ef . ]; then cd -- '/it'; fi\n"
        );
        for bad in ["", "1a", "a b", "a;id", "a=b"] {
            assert_eq!(initial_state(&start(&[(bad, "")])), Err(InvalidVariable(bad.to_owned())));
        }
    }
}
