//! Validation of requests, and parsing of signal names.

use super::agent_validation::check_agent;
use crate::core::agent;
use crate::limits::{
    ARG_MAX_BYTES, PROGRAM_NAME_MAX_BYTES, PROGRAMS_MAX, PROMPT_MAX_BYTES, TASK_HEALTH_MAX_MS, TIMEOUT_MAX_MS,
};
use nix::sys::signal::Signal;
use protocol::{ErrorBody, ErrorCode, ExecRequest, ProgramsRequest, TaskRequest, validate};
use std::str::FromStr;

pub type Checked = Result<(), Box<ErrorBody>>;

pub(super) fn invalid(field: &str, message: impl Into<String>) -> Box<ErrorBody> {
    Box::new(ErrorBody::invalid(field, message))
}

pub(super) fn too_large(field: &str, message: String) -> Box<ErrorBody> {
    let error = ErrorBody::new(ErrorCode::TooLarge, message);
    Box::new(error.with(|detail| detail.field = Some(field.to_owned())))
}

pub fn check_exec(request: &ExecRequest) -> Checked {
    Ok(validate::exec_request(request)?)
}

pub fn check_task(request: &TaskRequest) -> Checked {
    validate::text("prompt", &request.prompt, PROMPT_MAX_BYTES)?;
    check_agent(&request.agent)?;
    let argv = agent::argv(&request.agent);
    validate::env(&request.env)?;
    if let Some(cwd) = &request.cwd {
        validate::path("cwd", cwd)?;
    }
    if let Some(session) = &request.session {
        validate::session("session", session)?;
    }
    check_ms("timeout_ms", request.timeout_ms, 1..=TIMEOUT_MAX_MS)?;
    check_ms("idle_timeout_ms", request.idle_timeout_ms, 1..=TIMEOUT_MAX_MS)?;
    check_ms("health_timeout_ms", request.health_timeout_ms, 0..=TASK_HEALTH_MAX_MS)?;
    if let Some(build) = &request.build {
        validate::text("build.command", &build.command, ARG_MAX_BYTES)?;
        check_ms("build.timeout_ms", build.timeout_ms, 1..=TIMEOUT_MAX_MS)?;
    }
    let bytes = validate::argv_env_bytes(argv, &request.env) + request.prompt.len();
    Ok(validate::argv_env_size("agent.argv", "argv, env and prompt", bytes)?)
}

pub fn check_programs(request: &ProgramsRequest) -> Checked {
    if request.programs.len() > PROGRAMS_MAX {
        return Err(too_large("programs", format!("more than {PROGRAMS_MAX} programs")));
    }
    for program in &request.programs {
        validate::text("programs", program, PROGRAM_NAME_MAX_BYTES)?;
        // A relative path has no defined directory here.
        if program.is_empty() || (program.contains('/') && !program.starts_with('/')) {
            return Err(invalid("programs", "must be names, or absolute paths"));
        }
    }
    Ok(())
}

pub(super) fn check_ms(field: &str, ms: Option<u64>, allowed: std::ops::RangeInclusive<u64>) -> Checked {
    match ms {
        Some(ms) if !allowed.contains(&ms) => {
            Err(invalid(field, format!("must be {} to {}", allowed.start(), allowed.end())))
        }
        Some(_) | None => Ok(()),
    }
}

/// Parses `TERM`, `SIGTERM`, `term` or `15`.
pub fn parse_signal(text: &str) -> Result<Signal, Box<ErrorBody>> {
    let by_number = text.parse::<i32>().ok().and_then(|number| Signal::try_from(number).ok());
    let upper = text.to_ascii_uppercase();
    let full = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    by_number
        .or_else(|| Signal::from_str(&full).ok())
        .ok_or_else(|| invalid("signal", "not a signal: give a name such as TERM or a number from 1 to 31"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_names_or_absolute_paths() {
        let many = vec!["x".to_owned(); PROGRAMS_MAX + 1];
        let long = "x".repeat(PROGRAM_NAME_MAX_BYTES + 1);
        let one = |name: &str| vec![name.to_owned()];
        for bad in [many, one(&long), one(""), one("a/b"), one("./a"), one("a\0b")] {
            let error = check_programs(&ProgramsRequest { programs: bad }).expect_err("refused");
            assert_eq!(error.error.detail.field.as_deref(), Some("programs"));
        }
        let good = ["node", "/opt/agents/x/bin/x"].map(str::to_owned).to_vec();
        assert!(check_programs(&ProgramsRequest { programs: good }).is_ok());
    }

    #[test]
    fn a_signal_has_a_name_or_a_number() {
        for text in ["TERM", "SIGTERM", "term", "15"] {
            assert_eq!(parse_signal(text).ok(), Some(Signal::SIGTERM), "{text}");
        }
        for text in ["", "0", "-1", "99", "SIGSIGTERM", "nope"] {
            assert!(parse_signal(text).is_err(), "{text}");
        }
    }
}
