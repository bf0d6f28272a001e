//! Checks of what a caller asks for, and the names that stand in for numbers.

use super::agent_validation::check_agent;
use crate::core::agent;
use crate::limits::{
    ARG_MAX_BYTES, ARGV_ENV_MAX_BYTES, ARGV_MAX_COUNT, ENV_MAX_COUNT, PATH_MAX_BYTES, PROGRAM_NAME_MAX_BYTES,
    PROGRAMS_MAX, PROMPT_MAX_BYTES, STDIN_INLINE_MAX_BYTES, TASK_HEALTH_MAX_MS, TIMEOUT_MAX_MS,
};
use nix::sys::signal::Signal;
use protocol::limits::TTY_SIDE_MAX;
use protocol::{EnvMap, ErrorBody, ErrorCode, ExecRequest, ProgramsRequest, TaskRequest, TtySize};
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
    match (&request.argv, &request.shell) {
        (Some(argv), None) => check_argv("argv", argv)?,
        (None, Some(line)) => check_argv("shell", std::slice::from_ref(line))?,
        (None, None) => return Err(invalid("argv", "give argv or shell")),
        (Some(_), Some(_)) => return Err(invalid("shell", "give argv or shell, not both")),
    }
    check_env(&request.env)?;
    if let Some(cwd) = &request.cwd {
        check_path("cwd", cwd)?;
    }
    if request.stdin.as_ref().is_some_and(|text| text.len() > STDIN_INLINE_MAX_BYTES) {
        let message =
            format!("more than {STDIN_INLINE_MAX_BYTES} bytes; set stdin_open and send it with POST …/stdin");
        return Err(too_large("stdin", message));
    }
    if request.timeout_ms.is_some_and(|ms| ms == 0 || ms > TIMEOUT_MAX_MS) {
        return Err(invalid("timeout_ms", format!("must be 1 to {TIMEOUT_MAX_MS}")));
    }
    let argv_bytes: usize =
        request.argv.iter().flatten().chain(&request.shell).map(|arg| arg.len() + 1).sum();
    let env_bytes: usize = request.env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if argv_bytes + env_bytes > ARGV_ENV_MAX_BYTES {
        return Err(too_large(
            "argv",
            format!("argv and env together are more than {ARGV_ENV_MAX_BYTES} bytes"),
        ));
    }
    request.tty.map_or(Ok(()), |size| check_size("tty", size))
}

pub fn check_task(request: &TaskRequest) -> Checked {
    check_text("prompt", &request.prompt, PROMPT_MAX_BYTES)?;
    check_agent(&request.agent)?;
    let argv = agent::argv(&request.agent);
    check_env(&request.env)?;
    if let Some(cwd) = &request.cwd {
        check_path("cwd", cwd)?;
    }
    check_ms("timeout_ms", request.timeout_ms, 1..=TIMEOUT_MAX_MS)?;
    check_ms("idle_timeout_ms", request.idle_timeout_ms, 1..=TIMEOUT_MAX_MS)?;
    check_ms("health_timeout_ms", request.health_timeout_ms, 0..=TASK_HEALTH_MAX_MS)?;
    if let Some(build) = &request.build {
        check_text("build.command", &build.command, ARG_MAX_BYTES)?;
        check_ms("build.timeout_ms", build.timeout_ms, 1..=TIMEOUT_MAX_MS)?;
    }
    let argv_bytes: usize = argv.iter().map(|arg| arg.len() + 1).sum();
    let env_bytes: usize = request.env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if argv_bytes + env_bytes + request.prompt.len() > ARGV_ENV_MAX_BYTES {
        let message = format!("argv, env and prompt together are more than {ARGV_ENV_MAX_BYTES} bytes");
        return Err(too_large("agent.argv", message));
    }
    Ok(())
}

pub fn check_programs(request: &ProgramsRequest) -> Checked {
    if request.programs.len() > PROGRAMS_MAX {
        return Err(too_large("programs", format!("more than {PROGRAMS_MAX} programs")));
    }
    for program in &request.programs {
        check_text("programs", program, PROGRAM_NAME_MAX_BYTES)?;
        // Relative to what? Nobody could say.
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

pub(super) fn check_argv(field: &str, argv: &[String]) -> Checked {
    if argv.first().is_none_or(String::is_empty) {
        return Err(invalid(field, "the command is empty"));
    }
    if argv.len() > ARGV_MAX_COUNT {
        return Err(too_large(field, format!("more than {ARGV_MAX_COUNT} arguments")));
    }
    for arg in argv {
        check_text(field, arg, ARG_MAX_BYTES)?;
    }
    Ok(())
}

pub fn check_env(env: &EnvMap) -> Checked {
    if env.len() > ENV_MAX_COUNT {
        return Err(too_large("env", format!("more than {ENV_MAX_COUNT} variables")));
    }
    for (name, value) in env {
        let field = format!("env.{name}");
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(invalid(&field, "a variable needs a name without = and NUL"));
        }
        // The kernel counts the name and the sign between them too.
        check_text(&field, value, ARG_MAX_BYTES.saturating_sub(name.len() + 1))?;
    }
    Ok(())
}

pub(super) fn check_text(field: &str, text: &str, max_bytes: usize) -> Checked {
    if text.contains('\0') {
        return Err(invalid(field, "must not contain a NUL byte"));
    }
    if text.len() > max_bytes {
        return Err(too_large(field, format!("longer than {max_bytes} bytes")));
    }
    Ok(())
}

pub(super) fn check_path(field: &str, path: &str) -> Checked {
    if path.is_empty() || path.contains('\0') || path.len() > PATH_MAX_BYTES {
        return Err(invalid(field, format!("must be a path of 1 to {PATH_MAX_BYTES} bytes without NUL")));
    }
    Ok(())
}

pub fn check_size(field: &str, size: TtySize) -> Checked {
    let sane = |n: u16| (1..=TTY_SIDE_MAX).contains(&n);
    if sane(size.cols) && sane(size.rows) {
        Ok(())
    } else {
        Err(invalid(field, format!("cols and rows must be 1 to {TTY_SIDE_MAX}")))
    }
}

/// `TERM`, `SIGTERM`, `term` or `15`.
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

    fn request(change: impl FnOnce(&mut ExecRequest)) -> ExecRequest {
        let mut request = ExecRequest { argv: Some(vec!["true".into()]), ..ExecRequest::default() };
        change(&mut request);
        request
    }

    #[test]
    fn a_bad_request_is_refused_by_the_name_of_its_field() {
        let many = |n: usize| Some(vec!["x".to_owned(); n]);
        let table: Vec<(&str, ExecRequest)> = vec![
            ("argv", request(|r| r.argv = None)),
            ("argv", request(|r| r.argv = Some(vec![]))),
            ("argv", request(|r| r.argv = Some(vec![String::new()]))),
            ("argv", request(|r| r.argv = Some(vec!["a\0b".into()]))),
            ("argv", request(|r| r.argv = many(ARGV_MAX_COUNT + 1))),
            ("argv", request(|r| r.argv = Some(vec!["x".repeat(ARG_MAX_BYTES + 1)]))),
            ("shell", request(|r| r.shell = Some("true".into()))),
            ("cwd", request(|r| r.cwd = Some(String::new()))),
            ("cwd", request(|r| r.cwd = Some("a\0".into()))),
            ("env.A=B", request(|r| drop(r.env.insert("A=B".into(), String::new())))),
            ("env.A", request(|r| drop(r.env.insert("A".into(), "\0".into())))),
            ("timeout_ms", request(|r| r.timeout_ms = Some(0))),
            ("timeout_ms", request(|r| r.timeout_ms = Some(u64::MAX))),
            ("stdin", request(|r| r.stdin = Some("x".repeat(STDIN_INLINE_MAX_BYTES + 1)))),
            ("tty", request(|r| r.tty = Some(TtySize { cols: 0, rows: 24 }))),
        ];
        for (field, bad) in table {
            let error = check_exec(&bad).expect_err(field);
            assert_eq!(error.error.detail.field.as_deref(), Some(field));
        }
        assert!(check_exec(&request(|_| ())).is_ok());
    }

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
