//! Sanitizes the status of PID 1 for error pages: bounded, without control sequences, and without what this
//! visitor must not see.

use protocol::{
    Exit, HOSTD_PORT_IN_SANDBOX, ListeningPort, Process, ServiceState, ServiceView, Status,
    api::{DeathCause, PostMortem, Problem, ProblemCode},
    sanitize::{LineSanitizer, one_line},
};

pub const LINES_MAX: usize = 20;
const LINE_MAX_CHARS: usize = 400;
/// Far more than a log line that runtimed reports; the rest is not read.
const LINE_READ_MAX_BYTES: usize = 8 << 10;
pub const TEXT_MAX_CHARS: usize = 300;
const LISTENING_MAX: usize = 32;
const SERVICES_MAX: usize = 64;

#[derive(Debug, Default)]
pub struct SanitizedStatus {
    pub services: Vec<ServiceView>,
    /// Ordered by port, without hostd's own.
    pub ports: Vec<ListeningPort>,
    pub manifest_error: Option<String>,
    pub memory_limit_bytes: Option<u64>,
    pub oom_kills: u64,
}

impl SanitizedStatus {
    pub fn of(status: &Status, trusted: bool) -> Self {
        let theirs = status.ports.iter().filter(|listening| listening.port != HOSTD_PORT_IN_SANDBOX);
        let mut ports: Vec<ListeningPort> =
            theirs.take(LISTENING_MAX).map(|port| listening(port, trusted)).collect();
        ports.sort_by_key(|listening| listening.port);
        let visible = |text: &String| if trusted { text_line(text) } else { String::new() };
        Self {
            services: status.services.iter().take(SERVICES_MAX).map(|view| service(view, trusted)).collect(),
            ports,
            manifest_error: status.manifest_error.as_ref().map(visible),
            memory_limit_bytes: status.cgroup.memory_limit_bytes,
            oom_kills: status.cgroup.oom_kills.unwrap_or(0),
        }
    }
}

/// Untrusted text as one line.
pub fn text_line(text: &str) -> String {
    one_line(cut(text), TEXT_MAX_CHARS)
}

/// The last lines of a log, as a terminal would show them.
pub fn log(lines: &[String]) -> Vec<String> {
    let last = &lines[lines.len().saturating_sub(LINES_MAX)..];
    last.iter().map(|line| log_line(line)).collect()
}

/// Shows the last part of a line that was overwritten with carriage returns, unless that is empty.
fn log_line(line: &str) -> String {
    let tame = LineSanitizer::default().push(cut(line));
    let shown = tame.lines().rfind(|part| !part.trim().is_empty()).unwrap_or_default().trim_end();
    match shown.char_indices().nth(LINE_MAX_CHARS) {
        Some(_) => shown.chars().take(LINE_MAX_CHARS - 1).chain(['…']).collect(),
        None => shown.to_owned(),
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LINE_READ_MAX_BYTES)]
}

fn listening(port: &ListeningPort, trusted: bool) -> ListeningPort {
    let process = port.process.as_ref().filter(|_| trusted);
    ListeningPort {
        port: port.port,
        address: text_line(&port.address),
        process: process.map(|of| Process { pid: of.pid, command: text_line(&of.command) }),
    }
}

fn service(view: &ServiceView, trusted: bool) -> ServiceView {
    let visible = |text: &str| if trusted { text_line(text) } else { String::new() };
    let state = match &view.state {
        ServiceState::Unhealthy { since_ms, reason } => {
            ServiceState::Unhealthy { since_ms: *since_ms, reason: visible(reason) }
        }
        ServiceState::Waiting { on } => {
            ServiceState::Waiting { on: on.iter().take(SERVICES_MAX).cloned().collect() }
        }
        ServiceState::Starting
        | ServiceState::Ready { .. }
        | ServiceState::Backoff { .. }
        | ServiceState::Stopping
        | ServiceState::Stopped
        | ServiceState::FailedDependency { .. } => view.state.clone(),
    };
    let mut last_exit = view.last_exit.clone();
    if let Some(Exit::SpawnFailed { message }) = &mut last_exit {
        *message = visible(message);
    }
    let last_lines = if trusted { log(&view.last_lines) } else { Vec::new() };
    let pid = view.pid.filter(|_| trusted);
    ServiceView { command: visible(&view.command), state, pid, last_exit, last_lines, ..view.clone() }
}

/// A visitor that is not trusted gets the cause alone.
pub fn post_mortem(post_mortem: &PostMortem, trusted: bool) -> PostMortem {
    if trusted {
        let (message, last_lines) = (text_line(&post_mortem.message), log(&post_mortem.last_lines));
        return PostMortem { message, last_lines, ..post_mortem.clone() };
    }
    let message = match post_mortem.cause {
        DeathCause::ShutDown => "it was shut down",
        DeathCause::Oom => "it ran out of memory",
        DeathCause::Killed => "it was killed",
        DeathCause::Exited => "it ended by itself",
        DeathCause::Removed => "it was removed",
        DeathCause::Backend => "what runs it was started anew",
        DeathCause::Unknown => "it ended",
    };
    PostMortem {
        at: post_mortem.at.clone(),
        cause: post_mortem.cause,
        message: message.to_owned(),
        exit_code: None,
        signal: None,
        memory_peak_bytes: None,
        memory_limit_bytes: None,
        oom_kills: 0,
        pids_limit_hits: 0,
        last_lines: Vec::new(),
        task: None,
    }
}

/// A visitor that is not trusted gets the code alone.
pub fn problem(problem: &Problem, trusted: bool) -> Problem {
    if trusted {
        let Problem { code, message, output, step: _ } = problem;
        return Problem { code: *code, message: text_line(message), output: log(output), step: None };
    }
    let message = match problem.code {
        ProblemCode::Refused => "it cannot be run as it was asked for",
        ProblemCode::LaunchFailed => "it could not be started",
        ProblemCode::NotReady => "it was started and did not come up",
        ProblemCode::DeadlinePassed => "it took too long",
        ProblemCode::Oom => "it ran out of memory",
        ProblemCode::Died => "it ended by itself",
        ProblemCode::Damaged => "it is damaged",
        ProblemCode::ImageMissing => "its image is missing",
        ProblemCode::NameTaken => "its name is taken",
        ProblemCode::DiskFull => "the disk is full",
        ProblemCode::MemoryPressure => "the memory of the host ran out",
        ProblemCode::DriverUnavailable => "what runs it does not answer",
        ProblemCode::SetupFailed => "a step of its setup failed",
        ProblemCode::DotfilesFailed => "its dotfiles could not be installed",
        ProblemCode::SourceAuthFailed
        | ProblemCode::SourceNotFound
        | ProblemCode::SourceRefUnknown
        | ProblemCode::SourceTooLarge
        | ProblemCode::SourceUnreachable
        | ProblemCode::SourceFailed => "its repository could not be cloned",
    };
    Problem { code: problem.code, message: message.to_owned(), output: Vec::new(), step: None }
}
