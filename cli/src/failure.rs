//! How a command fails, and the one place where that is told: what went wrong, then what to do next.

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

/// Refused or failed.
const FAILED: u8 = 1;
/// The command line is wrong; also what clap uses.
const USAGE: u8 = 2;
/// As if SIGPIPE had ended us.
const BROKEN_PIPE: u8 = 141;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The arguments are wrong in a way that clap cannot see.
    #[error("{0}")]
    Usage(String),
    /// There is no such command, but another that does it.
    #[error("{message}")]
    UseInstead { message: String, next: String },
    #[error("{message}")]
    Other { message: String, next: Option<String> },
    #[error("could not {doing}")]
    Io {
        doing: String,
        #[source]
        source: io::Error,
    },
    /// Standard output does not take what we write.
    #[error("could not write the output")]
    Output(#[source] io::Error),
    /// Everything was told already.
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

    /// The same failure with what to do next.
    pub fn hint(self, next: impl Into<String>) -> Self {
        match self {
            Self::Other { message, next: _ } => Self::Other { message, next: Some(next.into()) },
            other => other,
        }
    }

    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::UseInstead { .. } => USAGE,
            Self::Output(_) if self.is_broken_pipe() => BROKEN_PIPE,
            Self::Client(_) | Self::Other { .. } | Self::Io { .. } | Self::Output(_) | Self::Reported => {
                FAILED
            }
        }
    }

    fn next_step(&self) -> Option<String> {
        match self {
            Self::Client(error) => error.next_step(),
            Self::Other { next, .. } => next.clone(),
            Self::UseInstead { next, .. } => Some(next.clone()),
            Self::Usage(_) => Some("see `slipway help` and `slipway COMMAND --help`".to_owned()),
            Self::Io { .. } | Self::Output(_) | Self::Reported => None,
        }
    }

    /// Says it on standard error: the API's own JSON for programs, else lines for people.
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

    /// What is wrong in the request, where it is one field.
    fn field(&self) -> Option<&str> {
        match self {
            Self::Client(error) => error.api()?.detail.field.as_deref(),
            Self::Usage(_)
            | Self::UseInstead { .. }
            | Self::Other { .. }
            | Self::Io { .. }
            | Self::Output(_)
            | Self::Reported => None,
        }
    }

    pub fn lines(&self) -> Vec<String> {
        let mut first = match self.field() {
            Some(field) => format!("slipway: {field}: {self}"),
            None => format!("slipway: {self}"),
        };
        let mut cause = match self {
            // hyper's own words say nothing more to a person.
            Self::Client(ClientError::ConnectionLost(_)) => None,
            other => other.source(),
        };
        while let Some(error) = cause {
            first.push_str(&format!(": {error}"));
            cause = error.source();
        }
        let mut lines = vec![first];
        if let Self::Client(error) = self
            && let Some(api) = error.api()
        {
            lines.extend(api.detail.problem.iter().flat_map(problem_lines));
        }
        lines.extend(self.next_step().map(|next| format!("  next: {next}")));
        lines
    }
}

/// How a sandbox ended that should have run, as indented lines.
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

/// A problem of a sandbox as indented lines.
pub fn problem_lines(problem: &Problem) -> Vec<String> {
    let code = wire_name(&problem.code);
    let mut lines = vec![format!("  problem: {code}: {}", problem.message)];
    lines.extend(problem.output.iter().map(|line| format!("  | {}", plain(line))));
    lines
}

/// A line on standard error, in our own colours whatever a command left behind; a closed one is nobody's loss.
pub fn eprint_line(line: &str) {
    use io::Write as _;
    terminal::reset_colours();
    // A raw terminal does not go back to the first column by itself.
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
        };
        let error =
            ApiError::new(ApiErrorCode::SandboxFailed, "the sandbox did not come up").with(|detail| {
                detail.problem = Some(problem);
                detail.existing = "01jb9xyzabcdefghjkmnpqrstv".parse().ok();
            });
        let failure = Failure::from(ClientError::Api(Box::new(error)));
        insta::assert_snapshot!(failure.lines().join("\n"), @r"
        slipway: the sandbox did not come up
          problem: launch_failed: crun exited 1
          | no such file
          next: `slipway attempts 01jb9xyzabcdefghjkmnpqrstv` shows what was tried; `slipway recreate 01jb9xyzabcdefghjkmnpqrstv` tries again
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
