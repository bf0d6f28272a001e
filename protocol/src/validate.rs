//! Validation that hostd and runtimed both do: hostd refuses at once, by the same rules, what runtimed would refuse
//! after the id of an exec or task is taken. Pure. Checks of one daemon alone do not belong here.

use crate::{
    Decision, EnvMap, ErrorBody, ErrorCode, ExecRequest, PermissionAnswer, TtySize,
    api::{ApiError, ApiErrorCode},
    limits::{
        ARG_MAX_BYTES, ARGV_ENV_MAX_BYTES, ARGV_MAX_COUNT, ENV_MAX_COUNT, PATH_MAX_BYTES, SESSION_MAX_BYTES,
        STDIN_INLINE_MAX_BYTES, TIMEOUT_MAX_MS, TTY_SIDE_MAX,
    },
};

/// A field of a request that breaks a rule. Converts to the error type of either API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub kind: ViolationKind,
    /// The path of the field in the request, as in `env.PATH`.
    pub field: String,
    pub message: String,
}

/// The error code that a violation is reported with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViolationKind {
    /// `invalid_request`.
    Invalid,
    /// `too_large`.
    TooLarge,
}

pub type Validated = Result<(), Violation>;

impl Violation {
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: ViolationKind::Invalid, field: field.into(), message: message.into() }
    }

    pub fn too_large(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: ViolationKind::TooLarge, field: field.into(), message: message.into() }
    }
}

impl From<Violation> for ApiError {
    fn from(violation: Violation) -> Self {
        let code = match violation.kind {
            ViolationKind::Invalid => ApiErrorCode::InvalidRequest,
            ViolationKind::TooLarge => ApiErrorCode::TooLarge,
        };
        Self::new(code, violation.message).with(|detail| detail.field = Some(violation.field))
    }
}

impl From<Violation> for Box<ErrorBody> {
    fn from(violation: Violation) -> Self {
        let code = match violation.kind {
            ViolationKind::Invalid => ErrorCode::InvalidRequest,
            ViolationKind::TooLarge => ErrorCode::TooLarge,
        };
        Self::new(ErrorBody::new(code, violation.message).with(|detail| detail.field = Some(violation.field)))
    }
}

/// Checks the session that an agent continues: it may become an argument, so it is one word and no option.
pub fn session(field: &str, session: &str) -> Validated {
    let is_word = !session.starts_with('-') && session.bytes().all(|byte| byte.is_ascii_graphic());
    if is_word && (1..=SESSION_MAX_BYTES).contains(&session.len()) {
        return Ok(());
    }
    let message = format!("must be 1 to {SESSION_MAX_BYTES} visible ASCII characters, and not begin with -");
    Err(Violation::invalid(field, message))
}

/// Checks everything that a request to run a command may hold.
pub fn exec_request(request: &ExecRequest) -> Validated {
    let command = match (&request.argv, &request.shell) {
        (Some(arguments), None) => {
            argv("argv", arguments)?;
            arguments.as_slice()
        }
        (None, Some(line)) => {
            argv("shell", std::slice::from_ref(line))?;
            std::slice::from_ref(line)
        }
        (None, None) => return Err(Violation::invalid("argv", "give argv or shell")),
        (Some(_), Some(_)) => return Err(Violation::invalid("shell", "give argv or shell, not both")),
    };
    env(&request.env)?;
    if let Some(cwd) = &request.cwd {
        path("cwd", cwd)?;
    }
    if request.stdin.as_ref().is_some_and(|text| text.len() > STDIN_INLINE_MAX_BYTES) {
        let message = format!(
            "must be at most {STDIN_INLINE_MAX_BYTES} bytes; set stdin_open and send more with POST …/stdin"
        );
        return Err(Violation::too_large("stdin", message));
    }
    if request.timeout_ms.is_some_and(|ms| !(1..=TIMEOUT_MAX_MS).contains(&ms)) {
        return Err(Violation::invalid("timeout_ms", format!("must be 1 to {TIMEOUT_MAX_MS}")));
    }
    argv_env_size("argv", "argv and env", argv_env_bytes(command, &request.env))?;
    request.tty.map_or(Ok(()), |size| tty_size("tty", size))
}

/// Checks the answer to a permission: `ask` is a rule for later, not a decision.
pub fn permission_answer(answer: &PermissionAnswer) -> Validated {
    match answer.decision {
        Decision::Allow | Decision::Deny => Ok(()),
        Decision::Ask => Err(Violation::invalid("decision", "must be allow or deny")),
    }
}

/// Checks a program and its arguments, each alone. Their sum is [`argv_env_size`].
pub fn argv(field: &str, argv: &[String]) -> Validated {
    if argv.first().is_none_or(String::is_empty) {
        return Err(Violation::invalid(field, "the command is empty; give the program to run"));
    }
    if argv.len() > ARGV_MAX_COUNT {
        return Err(Violation::too_large(field, format!("must be at most {ARGV_MAX_COUNT} arguments")));
    }
    argv.iter().try_for_each(|argument| text(field, argument, ARG_MAX_BYTES))
}

/// Checks the environment of a process, each variable alone. The sum is [`argv_env_size`].
pub fn env(env: &EnvMap) -> Validated {
    if env.len() > ENV_MAX_COUNT {
        return Err(Violation::too_large("env", format!("must be at most {ENV_MAX_COUNT} variables")));
    }
    env.iter().try_for_each(|(name, value)| env_variable(&format!("env.{name}"), name, value))
}

/// Checks one variable. The kernel counts `NAME=value` as one string.
pub fn env_variable(field: &str, name: &str, value: &str) -> Validated {
    env_name(field, name)?;
    no_nul(field, value)?;
    if name.len() + 1 + value.len() > ARG_MAX_BYTES {
        let message = format!("must be at most {ARG_MAX_BYTES} bytes with its name");
        return Err(Violation::too_large(field, message));
    }
    Ok(())
}

/// Checks the name of a variable.
pub fn env_name(field: &str, name: &str) -> Validated {
    if name.is_empty() || name.contains(['=', '\0']) {
        let message = "the name of a variable must not be empty and must not contain = or NUL";
        return Err(Violation::invalid(field, message));
    }
    Ok(())
}

/// Checks text that becomes a C string.
pub fn no_nul(field: &str, text: &str) -> Validated {
    if text.contains('\0') {
        return Err(Violation::invalid(field, "must not contain a NUL byte"));
    }
    Ok(())
}

/// Checks text that becomes a C string of bounded length; it may be empty.
pub fn text(field: &str, text: &str, max_bytes: usize) -> Validated {
    no_nul(field, text)?;
    if text.len() > max_bytes {
        return Err(Violation::too_large(field, format!("must be at most {max_bytes} bytes")));
    }
    Ok(())
}

/// Checks a path, absolute or relative. Whether anything is there is not looked at.
pub fn path(field: &str, path: &str) -> Validated {
    if path.is_empty() || path.contains('\0') || path.len() > PATH_MAX_BYTES {
        let message = format!("must be a path of 1 to {PATH_MAX_BYTES} bytes without NUL");
        return Err(Violation::invalid(field, message));
    }
    Ok(())
}

/// Checks the size of a terminal.
pub fn tty_size(field: &str, size: TtySize) -> Validated {
    let sane = |side: u16| (1..=TTY_SIDE_MAX).contains(&side);
    if sane(size.cols) && sane(size.rows) {
        return Ok(());
    }
    Err(Violation::invalid(field, format!("cols and rows must be 1 to {TTY_SIDE_MAX}")))
}

/// Returns the bytes that the kernel counts for `execve`: each string with its NUL, variables with their `=`.
pub fn argv_env_bytes(argv: &[String], env: &EnvMap) -> usize {
    let argv: usize = argv.iter().map(|argument| argument.len() + 1).sum();
    let env: usize = env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    argv + env
}

/// Checks what a process is started with as a whole. `parts` names what was added up, for the message.
pub fn argv_env_size(field: &str, parts: &str, bytes: usize) -> Validated {
    if bytes > ARGV_ENV_MAX_BYTES {
        let message = format!("{parts} together must be at most {ARGV_ENV_MAX_BYTES} bytes");
        return Err(Violation::too_large(field, message));
    }
    Ok(())
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
