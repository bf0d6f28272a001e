//! Failures of commands, and the one place that reports them: what is wrong, then what to do next.

use crate::{
    client::ClientError,
    humanize::age,
    output::escape_json,
    sanitize::TerminalFilter,
    terminal,
    text::{plain, wire_name},
};
use protocol::api::{ApiErrorBody, PostMortem, Problem};
use std::{error::Error as _, io};

/// The request was refused or failed.
const FAILED: u8 = 1;
/// The command line is wrong; clap uses the same code.
const USAGE: u8 = 2;
/// As a process that was killed by SIGPIPE.
const BROKEN_PIPE: u8 = 141;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Wrong arguments that clap cannot detect.
    #[error("{0}")]
    Usage(String),
    #[error("{message}")]
    Other { message: String, next: Option<String> },
    #[error("could not {doing}")]
    Io {
        doing: String,
        #[source]
        source: io::Error,
    },
    /// Standard output cannot be written.
    #[error("could not write the output")]
    Output(#[source] io::Error),
    /// The failure was reported already.
    #[error("failed")]
    Reported,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self::Other { message: message.into(), next: None }
    }

    pub fn io(doing: impl Into<String>, source: io::Error) -> Self {
        Self::Io { doing: doing.into(), source }
    }

    /// Adds what to do next.
    pub fn hint(self, next: impl Into<String>) -> Self {
        match self {
            Self::Other { message, next: _ } => Self::Other { message, next: Some(next.into()) },
            other @ (Self::Client(_)
            | Self::Usage(_)
            | Self::Io { .. }
            | Self::Output(_)
            | Self::Reported) => other,
        }
    }

    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::Output(_) if self.is_broken_pipe() => BROKEN_PIPE,
            Self::Client(_) | Self::Other { .. } | Self::Io { .. } | Self::Output(_) | Self::Reported => {
                FAILED
            }
        }
    }

    pub fn next_step(&self) -> Option<String> {
        match self {
            Self::Client(error) => error.next_step(),
            Self::Other { next, .. } => next.clone(),
            Self::Usage(_) => Some("see `slipway help` and `slipway COMMAND --help`".to_owned()),
            Self::Io { .. } | Self::Output(_) | Self::Reported => None,
        }
    }

    /// Prints the failure on standard error: with `--json` the error body of the API, else lines of text.
    pub fn report(&self, json: bool) {
        if self.is_broken_pipe() || matches!(self, Self::Reported) {
            return;
        }
        if let (true, Self::Client(ClientError::Api(error))) = (json, self) {
            let body = ApiErrorBody { error: (**error).clone() };
            let json = serde_json::to_vec(&body).unwrap_or_default();
            eprint_line(&String::from_utf8_lossy(&escape_json(&json)));
            return;
        }
        for line in self.lines() {
            eprint_line(&line);
        }
    }

    /// Returns the wrong field of the request, where the API named one.
    fn field(&self) -> Option<&str> {
        match self {
            Self::Client(error) => error.api()?.detail.field.as_deref(),
            Self::Usage(_) | Self::Other { .. } | Self::Io { .. } | Self::Output(_) | Self::Reported => None,
        }
    }

    pub fn lines(&self) -> Vec<String> {
        let mut first = match self.field() {
            Some(field) => format!("slipway: {field}: {self}"),
            None => format!("slipway: {self}"),
        };
        // hyper's error text adds nothing for the user.
        let lost = matches!(self, Self::Client(ClientError::ConnectionLost(_)));
        let mut cause = if lost { None } else { self.source() };
        while let Some(error) = cause {
            first.push_str(&format!(": {error}"));
            cause = error.source();
        }
        let mut lines = vec![first];
        if let Self::Client(error) = self
            && let Some(api) = error.api()
        {
            lines.extend(api.detail.problem.as_deref().into_iter().flat_map(problem_lines));
        }
        lines.extend(self.next_step().map(|next| format!("  next: {next}")));
        lines
    }
}

/// Formats the death of a sandbox as indented lines.
pub fn post_mortem_lines(death: &PostMortem) -> Vec<String> {
    let cause = wire_name(&death.cause).replace('_', " ");
    let mut lines = vec![format!("  ended: {} ago, {cause}: {}", age(&death.at), plain(&death.message))];
    let mb = |bytes: u64| bytes >> 20;
    let memory = match (death.memory_peak_bytes, death.memory_limit_bytes) {
        (Some(peak), Some(limit)) => Some(format!("memory peak {} of {} MB", mb(peak), mb(limit))),
        (Some(peak), None) => Some(format!("memory peak {} MB", mb(peak))),
        (None, _) => None,
    };
    let counted = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let facts = [
        death.exit_code.map(|code| format!("exit code {code}")),
        death.signal.map(|signal| format!("signal {signal}")),
        memory,
        counted(death.oom_kills, "killed for memory"),
        counted(death.pids_limit_hits, "process starts refused"),
        death.task.as_ref().map(|task| format!("task {}", plain(task))),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    lines.extend((!facts.is_empty()).then(|| format!("  of it: {}", facts.join(", "))));
    lines.extend(death.last_lines.iter().map(|line| format!("  | {}", plain(line))));
    lines
}

/// Formats a problem of a sandbox as indented lines.
pub fn problem_lines(problem: &Problem) -> Vec<String> {
    let code = wire_name(&problem.code);
    let mut lines = vec![format!("  problem: {code}: {}", problem.message)];
    lines.extend(problem.output.iter().map(|line| format!("  | {}", plain(line))));
    lines
}

/// Prints a line on standard error, after a reset of colours that a command left active. Write errors are ignored.
pub fn eprint_line(line: &str) {
    use io::Write as _;
    terminal::reset_colours();
    // A terminal in raw mode needs the carriage return.
    let end = if terminal::is_raw() { "\r\n" } else { "\n" };
    let _ = write!(io::stderr(), "{}{end}", TerminalFilter::whole(line));
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::{ApiError, ApiErrorCode, ProblemCode};

    #[test]
    fn a_failed_create_says_why_and_what_next() {
        let problem = Problem {
            code: ProblemCode::LaunchFailed,
            message: "crun exited 1".into(),
            output: vec!["no such\u{1b}[31m file".into()],
            step: None,
        };
        let error =
            ApiError::new(ApiErrorCode::SandboxFailed, "the sandbox did not come up").with(|detail| {
                detail.problem = Some(Box::new(problem));
                detail.existing = "01jb9xyzabcdefghjkmnpqrstv".parse().ok();
            });
        let failure = Failure::from(ClientError::Api(Box::new(error)));
        insta::assert_snapshot!(failure.lines().join("\n"), @r"
        slipway: the sandbox did not come up
          problem: launch_failed: crun exited 1
          | no such file
          next: `slipway attempts 01jb9xyzabcdefghjkmnpqrstv` shows why; `slipway recreate 01jb9xyzabcdefghjkmnpqrstv` tries again
        ");
        assert_eq!(failure.exit_code(), 1);
    }

    #[test]
    fn a_closed_pipe_is_told_to_nobody() {
        let failure = Failure::Output(io::ErrorKind::BrokenPipe.into());
        assert!(failure.is_broken_pipe());
        assert_eq!(failure.exit_code(), 141);
    }
}
