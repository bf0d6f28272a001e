//! Runs git on the private repository and index, without any user or system configuration.

use super::Request;
use nix::errno::Errno;
use std::ffi::OsStr;
use std::io::{self, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::thread;

/// Length of git's own message in an error.
const WORDS_MAX_CHARS: usize = 300;

pub struct Git {
    pub repository: PathBuf,
    pub work_tree: PathBuf,
    /// Where the objects are, if not in the repository.
    pub objects: Option<PathBuf>,
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
    /// The repository is not as it was left.
    #[error("{what} of the checkpoint is gone or was changed")]
    Lost { what: String },
}

impl GitError {
    /// The failure of a command that can only fail for want of an object.
    pub fn or_lost(self) -> Self {
        match self {
            Self::Failed { words, .. } => Self::Lost { what: format!("an object ({words})") },
            other @ (Self::Missing
            | Self::Io { .. }
            | Self::TooMany { .. }
            | Self::Unexpected
            | Self::Lost { .. }) => other,
        }
    }

    /// Whether the file system or the quota is full.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                let errno = source.raw_os_error().map(Errno::from_raw);
                matches!(errno, Some(Errno::ENOSPC | Errno::EDQUOT))
            }
            Self::Failed { words, .. } => words.contains("No space left") || words.contains("quota exceeded"),
            Self::Missing | Self::TooMany { .. } | Self::Unexpected | Self::Lost { .. } => false,
        }
    }

    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl Git {
    pub fn new(request: &Request) -> Self {
        let (repository, work_tree) = (request.repository.clone(), request.work_tree.clone());
        Self { repository, work_tree, objects: None }
    }

    /// Looks at the same objects from a repository of its own, beside whatever else uses this one.
    pub fn beside(&self, repository: PathBuf) -> Self {
        let objects = Some(self.repository.join("objects"));
        Self { repository, work_tree: PathBuf::from("/"), objects }
    }

    pub fn index(&self) -> PathBuf {
        self.repository.join("index")
    }

    /// Runs git and returns its output. `input` is its stdin.
    pub fn run(&self, arguments: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>, GitError> {
        self.run_in(&self.work_tree, &self.index(), arguments, input)
    }

    /// The same for another directory and index.
    pub fn run_in(
        &self,
        work_tree: &Path,
        index: &Path,
        arguments: &[&str],
        input: Option<&[u8]>,
    ) -> Result<Vec<u8>, GitError> {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let mut command = self.command(work_tree, index, &arguments);
        finished(&arguments, output(&mut command, input).map_err(not_run(work_tree))?)
    }

    /// The same for a command that warns where it cannot read a directory: also whether it did.
    pub fn run_with_warnings(
        &self,
        work_tree: &Path,
        index: &Path,
        arguments: &[&str],
    ) -> Result<(Vec<u8>, bool), GitError> {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let mut command = self.command(work_tree, index, &arguments);
        let output = output(&mut command, None).map_err(not_run(work_tree))?;
        let warned = !output.stderr.is_empty();
        finished(&arguments, output).map(|printed| (printed, warned))
    }

    /// The same for a command that exits with 1 where it has nothing to print.
    pub fn run_or_none(
        &self,
        work_tree: &Path,
        index: &Path,
        arguments: &[&str],
        input: Option<&[u8]>,
    ) -> Result<Vec<u8>, GitError> {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let mut command = self.command(work_tree, index, &arguments);
        let output = output(&mut command, input).map_err(not_run(work_tree))?;
        if output.status.code() == Some(1) { Ok(Vec::new()) } else { finished(&arguments, output) }
    }

    /// The same with arguments that may be no text.
    pub fn run_os(&self, arguments: &[&OsStr]) -> Result<Vec<u8>, GitError> {
        let mut command = self.command(&self.work_tree, &self.index(), arguments);
        finished(arguments, output(&mut command, None).map_err(not_run(&self.work_tree))?)
    }

    /// Runs git and reads its output as it comes. A reader that stops early ends git.
    pub fn stream<T>(
        &self,
        arguments: &[impl AsRef<OsStr>],
        input: Option<&[u8]>,
        read: impl FnOnce(&mut BufReader<ChildStdout>) -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        let arguments: Vec<&OsStr> = arguments.iter().map(AsRef::as_ref).collect();
        let mut command = self.command(&self.work_tree, &self.index(), &arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let (result, status) = streamed(&mut command, input, read).map_err(not_run(&self.work_tree))?;
        // Without a reader git ends by a signal; an exit code is its own complaint.
        match (result, status.code()) {
            (Ok(_), Some(1..)) => {
                Err(GitError::Failed { verb: verb(&arguments), words: "failed".to_owned() })
            }
            (result, _) => result,
        }
    }

    fn command(&self, work_tree: &Path, index: &Path, arguments: &[&OsStr]) -> Command {
        let mut command = Command::new("git");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(ENVIRONMENT).env("GIT_DIR", &self.repository);
        command.env("GIT_WORK_TREE", work_tree).env("GIT_INDEX_FILE", index);
        if let Some(objects) = &self.objects {
            command.env("GIT_OBJECT_DIRECTORY", objects);
        }
        command.args(arguments).current_dir(work_tree);
        command
    }

    /// Runs git and returns the object name that it prints.
    pub fn object(&self, arguments: &[&str]) -> Result<String, GitError> {
        object_name(self.run(arguments, None)?)
    }
}

pub fn object_name(printed: Vec<u8>) -> Result<String, GitError> {
    let name = String::from_utf8(printed).map_err(|_| GitError::Unexpected)?.trim().to_owned();
    if is_object(&name) { Ok(name) } else { Err(GitError::Unexpected) }
}

fn finished(arguments: &[&OsStr], output: Output) -> Result<Vec<u8>, GitError> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(GitError::Failed { verb: verb(arguments), words: words(&output) })
}

fn verb(arguments: &[&OsStr]) -> String {
    arguments.first().map(|verb| verb.to_string_lossy().into_owned()).unwrap_or_default()
}

fn not_run(work_tree: &Path) -> impl Fn(io::Error) -> GitError {
    move |error| {
        if error.kind() == io::ErrorKind::NotFound && work_tree.exists() {
            return GitError::Missing;
        }
        GitError::io(format!("run git in {}", work_tree.display()))(error)
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
fn output(command: &mut Command, input: Option<&[u8]>) -> io::Result<Output> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command, input)?;
    thread::scope(|scope| {
        write_input(scope, &mut child, input);
        child.wait_with_output()
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "this process is neither PID 1 nor a shim: it has no other waiter"
)]
fn streamed<T>(
    command: &mut Command,
    input: Option<&[u8]>,
    read: impl FnOnce(&mut BufReader<ChildStdout>) -> T,
) -> io::Result<(T, ExitStatus)> {
    let mut child = spawn(command, input)?;
    let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    thread::scope(|scope| {
        write_input(scope, &mut child, input);
        let result = read(&mut BufReader::new(stdout));
        Ok((result, child.wait()?))
    })
}

fn spawn(command: &mut Command, input: Option<&[u8]>) -> io::Result<Child> {
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() }).spawn()
}

/// Writes the stdin of git while its output is read. Git that does not read all of it has failed and says so.
fn write_input<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    child: &mut Child,
    input: Option<&'scope [u8]>,
) {
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        scope.spawn(move || drop(stdin.write_all(input)));
    }
}

/// The end of what git complained about: the cause often stands before the last line.
fn words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let mut lines: Vec<&str> = text.lines().rev().filter(|line| !line.trim().is_empty()).take(2).collect();
    lines.reverse();
    if lines.is_empty() {
        lines.push("failed without a message");
    }
    lines.join("; ").chars().take(WORDS_MAX_CHARS).collect()
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
