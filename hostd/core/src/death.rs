//! How a sandbox died that should have been running, and its report to users.

use super::rfc3339;
use protocol::api::{DeathCause, PostMortem, Problem, ProblemCode};

/// Lines of PID 1's last output that are kept.
const LINES_MAX: usize = 20;
const LINE_MAX_CHARS: usize = 400;

/// How a sandbox died.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Death {
    pub cause: DeathCause,
    /// Exit code of PID 1, where known.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// As last read.
    pub memory_peak_bytes: Option<u64>,
    pub memory_limit_bytes: Option<u64>,
    pub oom_kills: u64,
    pub pids_limit_hits: u64,
    /// The last lines PID 1 printed.
    pub last_lines: Vec<String>,
}

impl Death {
    /// Whether the sandbox may be woken like a stopped one: nothing in it caused this death.
    pub fn allows_wake(&self) -> bool {
        match self.cause {
            DeathCause::ShutDown | DeathCause::Backend => true,
            DeathCause::Oom
            | DeathCause::Killed
            | DeathCause::Exited
            | DeathCause::Removed
            | DeathCause::Unknown => false,
        }
    }

    /// The problem of a sandbox in the state `error`.
    pub fn problem(&self) -> Problem {
        let code = if self.cause == DeathCause::Oom { ProblemCode::Oom } else { ProblemCode::Died };
        Problem { code, message: self.message(None), output: self.kept_lines(), step: None }
    }

    /// The report that is kept. `task` is the task that was running.
    pub fn post_mortem(&self, task: Option<String>, now_ms: u64) -> PostMortem {
        PostMortem {
            at: rfc3339(now_ms),
            cause: self.cause,
            message: self.message(task.as_deref()),
            exit_code: self.exit_code,
            signal: self.signal,
            memory_peak_bytes: self.memory_peak_bytes,
            memory_limit_bytes: self.memory_limit_bytes,
            oom_kills: self.oom_kills,
            pids_limit_hits: self.pids_limit_hits,
            last_lines: self.kept_lines(),
            task,
        }
    }

    /// Cause, numbers and what to do next, for users.
    pub fn message(&self, task: Option<&str>) -> String {
        let ran = task.map(|task| format!(" while task {task} ran")).unwrap_or_default();
        match self.cause {
            DeathCause::Oom => {
                let memory = self.memory();
                format!("the kernel killed PID 1 for memory{memory}{ran}; give it more with limits.memory_mb")
            }
            DeathCause::Killed => {
                let signal = self.signal.map(|signal| format!(" by signal {signal}")).unwrap_or_default();
                format!("PID 1 was killed{signal} from outside{ran}; start it again")
            }
            DeathCause::Exited => {
                let code = self.exit_code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
                format!("PID 1 ended by itself{code}{ran}; start it again")
            }
            DeathCause::Removed => {
                format!("its container was removed from outside{ran}; start it again, its files are kept")
            }
            DeathCause::Backend => {
                format!("its backend was shut down or restarted{ran}; it starts again when it is needed")
            }
            DeathCause::ShutDown => {
                format!("it was shut down from outside{ran}; it starts again when it is needed")
            }
            DeathCause::Unknown => {
                format!("PID 1 of the sandbox exited{ran} for an unknown reason; start it again")
            }
        }
    }

    fn memory(&self) -> String {
        let mb = |name: &str, bytes: Option<u64>| bytes.map(|bytes| format!("{name} {} MB", bytes >> 20));
        let known = [mb("limit", self.memory_limit_bytes), mb("peak", self.memory_peak_bytes)];
        let known: Vec<String> = known.into_iter().flatten().collect();
        if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) }
    }

    fn kept_lines(&self) -> Vec<String> {
        let last = &self.last_lines[self.last_lines.len().saturating_sub(LINES_MAX)..];
        last.iter().map(|line| line.chars().take(LINE_MAX_CHARS).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cause: DeathCause) -> Death {
        Death { cause, ..Death::default() }
    }

    #[test]
    fn every_cause_is_a_sentence_that_says_what_to_do() {
        let oom = Death {
            memory_limit_bytes: Some(512 << 20),
            memory_peak_bytes: Some(511 << 20),
            ..of(DeathCause::Oom)
        };
        let killed = Death { signal: Some(9), ..of(DeathCause::Killed) };
        let exited = Death { exit_code: Some(3), ..of(DeathCause::Exited) };
        let said = [
            (oom.clone(), Some("t1")),
            (of(DeathCause::Oom), None),
            (killed, Some("t1")),
            (of(DeathCause::Killed), None),
            (exited, None),
            (of(DeathCause::Removed), None),
            (of(DeathCause::Backend), Some("t1")),
            (of(DeathCause::ShutDown), None),
            (of(DeathCause::Unknown), Some("t1")),
        ]
        .map(|(death, task)| death.message(task));
        insta::assert_snapshot!(said.join("\n"), @r"
        the kernel killed PID 1 for memory (limit 512 MB, peak 511 MB) while task t1 ran; give it more with limits.memory_mb
        the kernel killed PID 1 for memory; give it more with limits.memory_mb
        PID 1 was killed by signal 9 from outside while task t1 ran; start it again
        PID 1 was killed from outside; start it again
        PID 1 ended by itself with exit code 3; start it again
        its container was removed from outside; start it again, its files are kept
        its backend was shut down or restarted while task t1 ran; it starts again when it is needed
        it was shut down from outside; it starts again when it is needed
        PID 1 of the sandbox exited while task t1 ran for an unknown reason; start it again
        ");
        assert_eq!(oom.problem().code, ProblemCode::Oom);
        assert_eq!(of(DeathCause::Removed).problem().code, ProblemCode::Died);
    }

    #[test]
    fn kept_output_is_limited() {
        let last_lines = (0..50).map(|number| format!("{number}{}", "x".repeat(9_000))).collect();
        let told = Death { last_lines, ..Death::default() }.post_mortem(None, 0).last_lines;
        assert_eq!(told.len(), LINES_MAX);
        assert!(told[0].starts_with("30x") && told[LINES_MAX - 1].starts_with("49x"), "{told:?}");
        assert!(told.iter().all(|line| line.chars().count() == LINE_MAX_CHARS));
    }
}
