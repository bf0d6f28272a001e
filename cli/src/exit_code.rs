//! The exit code of `exec`, and what is said beside it. Pure.

use protocol::{Exit, Hint};

/// Our own failure, as with docker.
pub const OWN: u8 = 125;
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;
const TIMED_OUT: u8 = 124;
const OOM: u8 = 137;
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// `interrupted`: whether the person pressed Ctrl-C.
pub fn code(exit: &Exit, interrupted: bool) -> u8 {
    match exit {
        Exit::Exited { code } => u8::try_from(*code & 0xff).unwrap_or(OWN),
        Exit::Signalled { signal } => u8::try_from(128 + (*signal & 0x7f)).unwrap_or(OWN),
        Exit::Oom => OOM,
        Exit::TimedOut => TIMED_OUT,
        Exit::Cancelled if interrupted => INTERRUPTED,
        Exit::Cancelled => TERMINATED,
        // What a shell says. The message has the system's own words.
        Exit::SpawnFailed { message } if message.to_ascii_lowercase().contains("no such file") => NOT_FOUND,
        Exit::SpawnFailed { .. } => CANNOT_RUN,
        Exit::Lost => OWN,
    }
}

/// What a code alone does not tell.
pub fn message(exit: &Exit) -> Option<String> {
    match exit {
        Exit::Exited { .. } | Exit::Signalled { .. } => None,
        Exit::Oom => {
            Some("killed by the kernel: the sandbox ran out of memory (see `create --memory`)".to_owned())
        }
        Exit::TimedOut => Some("ended because it took longer than --timeout".to_owned()),
        Exit::Cancelled => Some("cancelled".to_owned()),
        Exit::SpawnFailed { message } => Some(format!("could not {message}")),
        Exit::Lost => Some("the sandbox stopped or died under the command; its end was not seen".to_owned()),
    }
}

/// A hint for a person; `failed` says whether the command did not end well.
pub fn hint(hint: &Hint, failed: bool) -> Option<String> {
    match hint {
        Hint::OutputLost { bytes } => Some(format!("{bytes} bytes of output could not be kept")),
        Hint::DiskFull => Some("the disk of the workspace is full".to_owned()),
        Hint::Unkillable { processes } => Some(format!("{processes} processes did not die after SIGKILL")),
        Hint::PidsLimit { times } if failed => {
            Some(format!("the limit of processes was hit {times} times (see `create --pids`)"))
        }
        Hint::OomKills { times } if failed => Some(format!(
            "the kernel killed {times} processes for memory while it ran (see `create --memory`)"
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
