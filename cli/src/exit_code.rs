//! Exit codes of `slipway exec`, and the messages beside them. Pure.

use protocol::{Exit, Hint};

/// Failure of slipway or hostd itself, as with docker.
pub const OWN: u8 = 125;
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;
const TIMED_OUT: u8 = 124;
const OOM: u8 = 137;
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// Returns the exit code. `interrupted`: whether the user pressed Ctrl-C.
pub fn code(exit: &Exit, interrupted: bool) -> u8 {
    match exit {
        Exit::Exited { code } => u8::try_from(*code & 0xff).unwrap_or(OWN),
        Exit::Signalled { signal } => u8::try_from(128 + (*signal & 0x7f)).unwrap_or(OWN),
        Exit::Oom => OOM,
        Exit::TimedOut => TIMED_OUT,
        Exit::Cancelled if interrupted => INTERRUPTED,
        Exit::Cancelled => TERMINATED,
        // As a shell does. The message contains the error text of the system.
        Exit::SpawnFailed { message } if message.to_ascii_lowercase().contains("no such file") => NOT_FOUND,
        Exit::SpawnFailed { .. } => CANNOT_RUN,
        Exit::Lost => OWN,
    }
}

/// Returns a message where the exit code alone does not explain the end.
pub fn message(exit: &Exit) -> Option<String> {
    match exit {
        Exit::Exited { .. } | Exit::Signalled { .. } => None,
        Exit::Oom => Some(
            "killed by the kernel: the sandbox ran out of memory; raise its limit with `create --memory`"
                .to_owned(),
        ),
        Exit::TimedOut => Some("the command was killed after --timeout".to_owned()),
        Exit::Cancelled => Some("cancelled".to_owned()),
        Exit::SpawnFailed { message } => Some(format!("could not {message}")),
        Exit::Lost => {
            Some("the sandbox stopped or died during the command; its exit status is unknown".to_owned())
        }
    }
}

/// Returns the text of a hint. `failed`: whether the command failed.
pub fn hint(hint: &Hint, failed: bool) -> Option<String> {
    match hint {
        Hint::OutputLost { bytes } => Some(format!("{bytes} bytes of output were lost")),
        Hint::DiskFull => Some("the disk of the workspace is full".to_owned()),
        Hint::Unkillable { processes } => Some(format!("{processes} processes did not die after SIGKILL")),
        Hint::PidsLimit { times } if failed => {
            Some(format!("the process limit was hit {times} times; raise it with `create --pids`"))
        }
        Hint::OomKills { times } if failed => Some(format!(
            "the kernel killed {times} processes for memory meanwhile; raise the limit with `create --memory`"
        )),
        Hint::PidsLimit { .. } | Hint::OomKills { .. } | Hint::Leaky | Hint::ShimDied => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_its_code() {
        let spawn = |message: &str| Exit::SpawnFailed { message: message.to_owned() };
        let table = [
            (Exit::Exited { code: 0 }, 0),
            (Exit::Exited { code: 3 }, 3),
            (Exit::Exited { code: 255 }, 255),
            (Exit::Exited { code: -1 }, 255),
            (Exit::Signalled { signal: 2 }, 130),
            (Exit::Signalled { signal: 9 }, 137),
            (Exit::Signalled { signal: 64 }, 192),
            (Exit::Oom, 137),
            (Exit::TimedOut, 124),
            (Exit::Cancelled, 143),
            (spawn("run \"nope\": No such file or directory (os error 2)"), 127),
            (spawn("run \"/etc\": Permission denied"), 126),
            (Exit::Lost, 125),
        ];
        for (exit, expected) in table {
            assert_eq!(code(&exit, false), expected, "{exit:?}");
        }
        assert_eq!(code(&Exit::Cancelled, true), 130);
    }
}
