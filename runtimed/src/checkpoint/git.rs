//! Runs git on the private repository and index, without any user or system configuration.

use super::Request;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Length of git's own message in an error.
const WORDS_MAX_CHARS: usize = 300;

pub struct Git {
    pub repository: PathBuf,
    pub work_tree: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git is not installed")]
    Missing,
    #[error("git {verb}: {words}")]
    Failed { verb: String, words: String },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("there are more than {max} files")]
    TooMany { max: usize },
    #[error("git printed something unexpected")]
    Unexpected,
}

impl GitError {
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl Git {
    pub fn new(request: &Request) -> Self {
        Self { repository: request.repository.clone(), work_tree: request.work_tree.clone() }
    }

    pub fn index(&self) -> PathBuf {
        self.repository.join("index")
    }

    /// Runs git and returns its output. `input` is a file for its stdin.
    pub fn run(&self, arguments: &[&str], input: Option<&Path>) -> Result<Vec<u8>, GitError> {
        self.run_in(&self.work_tree, &self.index(), arguments, input)
    }

    /// The same for another directory and index.
    pub fn run_in(
        &self,
        work_tree: &Path,
        index: &Path,
        arguments: &[&str],
        input: Option<&Path>,
    ) -> Result<Vec<u8>, GitError> {
        let stdin = match input {
            None => Stdio::null(),
            Some(path) => Stdio::from(File::open(path).map_err(GitError::io("read a list"))?),
        };
        let mut command = Command::new("git");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(ENVIRONMENT).env("GIT_DIR", &self.repository);
        command.env("GIT_WORK_TREE", work_tree).env("GIT_INDEX_FILE", index);
        command.args(arguments).current_dir(work_tree).stdin(stdin);
        let verb = arguments.first().copied().unwrap_or_default().to_owned();
        let output = output(&mut command).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound && work_tree.exists() {
                return GitError::Missing;
            }
            GitError::io(format!("run git in {}", work_tree.display()))(error)
        })?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(GitError::Failed { verb, words: words(&output) })
    }

    /// Runs git and returns the object name that it prints.
    pub fn object(&self, arguments: &[&str]) -> Result<String, GitError> {
        let printed = self.run(arguments, None)?;
        let name = String::from_utf8(printed).map_err(|_| GitError::Unexpected)?.trim().to_owned();
        if is_object(&name) { Ok(name) } else { Err(GitError::Unexpected) }
    }
}

pub fn is_object(name: &str) -> bool {
    (40..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[expect(
    clippy::disallowed_methods,
    reason = "this process is neither PID 1 nor a shim: it has no other waiter"
)]
fn output(command: &mut Command) -> io::Result<Output> {
    command.output()
}

fn words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("failed without a message");
    line.chars().take(WORDS_MAX_CHARS).collect()
}

/// No configuration but that of the private repository, no prompt, no helper.
const ENVIRONMENT: [(&str, &str); 16] = [
    ("HOME", "/nonexistent"),
    ("XDG_CONFIG_HOME", "/nonexistent"),
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "/bin/false"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", ":"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_AUTHOR_NAME", "slipway"),
    ("GIT_AUTHOR_EMAIL", "slipway@localhost"),
    ("GIT_COMMITTER_NAME", "slipway"),
    ("GIT_COMMITTER_EMAIL", "slipway@localhost"),
];
