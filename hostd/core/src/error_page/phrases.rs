//! Phrases of error pages: durations, counts, names and exits.

use crate::signal_name::signal_name;
use protocol::{Exit, Process, ServiceName, sanitize::one_line};

const PROGRAM_MAX_CHARS: usize = 32;

pub fn duration(ms: u64) -> String {
    let seconds = ms.div_ceil(1_000);
    match seconds {
        0..=119 => format!("{seconds} s"),
        _ => format!("{} minutes", seconds.div_ceil(60)),
    }
}

pub fn times(count: u32) -> String {
    match count {
        0 | 1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}

pub fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes >> 20)
}

/// The program behind a port, without its arguments.
pub fn program(process: Option<&Process>) -> String {
    let command = process.map_or("", |process| process.command.as_str());
    let first = command.split_whitespace().next().unwrap_or_default();
    let name = first.rsplit('/').next().unwrap_or_default();
    let name: String = name.chars().filter(|c| c.is_alphanumeric() || "-_.+".contains(*c)).collect();
    if name.is_empty() { "something".to_owned() } else { one_line(&name, PROGRAM_MAX_CHARS) }
}

pub fn names(names: &[ServiceName]) -> String {
    match names {
        [] => "what it needs".to_owned(),
        [one] => one.to_string(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(ServiceName::as_str).collect();
            format!("{} and {last}", first.join(", "))
        }
    }
}

/// How a process ended, as the rest of a sentence behind its name.
pub fn ended(exit: &Exit) -> String {
    match exit {
        Exit::Exited { code } => format!("exited with code {code}"),
        Exit::Signalled { signal } => format!("was ended by {}", signal_name(*signal)),
        Exit::Oom => "was killed for memory".to_owned(),
        Exit::TimedOut => "took too long and was ended".to_owned(),
        Exit::Cancelled => "was ended".to_owned(),
        Exit::SpawnFailed { .. } => "could not be started".to_owned(),
        Exit::Lost => "ended without a recorded exit status".to_owned(),
    }
}
