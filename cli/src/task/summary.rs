//! Formats the result of a task. Pure.

use super::{
    model_usage::usage_line,
    style::{Style, counts, elapsed, payload_text},
};
use crate::{exit_code, output::Colour, sanitize::LineSanitizer, sanitize::one_line};
use protocol::{
    BuildStatus, Changes, Checkpoint, Durations, Exit, FailureReason, HealthOutcome, HealthStatus,
    TaskResult, TaskStatus,
};

/// Files listed in a summary.
const FILES_SHOWN: usize = 20;
/// Characters of a message that are shown.
const MESSAGE_CHARS: usize = 500;
/// Characters of the name of a model.
const MODEL_CHARS: usize = 120;
/// Last lines of stderr of a failed agent, and characters of each.
const STDERR_LINES: usize = 10;
const STDERR_CHARS: usize = 200;

/// What the summary includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// Events were printed before; `files` of them were about files.
    AfterEvents { files: u64 },
    /// No events were printed: the summary includes the last message and the build output.
    Whole,
}

pub fn summary(result: &TaskResult, style: Style, listing: Listing) -> String {
    let mut lines = vec![headline(result, style)];
    if let Some(message) = result.message.as_deref().filter(|_| message_adds(result)) {
        lines.push(format!("  {}", one_line(message, MESSAGE_CHARS)));
    }
    lines.extend(stderr(result));
    let failed = result.status != TaskStatus::Succeeded;
    lines.extend(
        result.hints.iter().filter_map(|hint| exit_code::hint(hint, failed)).map(|hint| field("note", &hint)),
    );
    lines.extend(files(result.files_changed.as_ref(), style, listing));
    lines.extend(build(result, listing));
    lines.extend(health(&result.health));
    lines.extend(checkpoint(&result.checkpoint).map(|text| field("checkpoint", &text)));
    if !result.models.is_empty() {
        let models: Vec<String> = result.models.iter().map(|name| one_line(name, MODEL_CHARS)).collect();
        lines.push(field("model", &models.join(", ")));
    }
    if let Some(usage) = result.usage {
        lines.push(field("usage", &usage_line(&usage)));
    }
    if let (Listing::Whole, Some(said)) = (listing, &result.final_message) {
        lines.push(field("said", ""));
        lines.extend(indented(&payload_text(said)));
    }
    lines.join("\n") + "\n"
}

/// Formats the last lines of the agent's stderr, only where the agent itself failed: after a failure of the model the
/// provider's error says why.
fn stderr(result: &TaskResult) -> Vec<String> {
    let of_agent = result.failure_reason.is_some_and(FailureReason::is_of_agent);
    let Some(printed) = result.agent_stderr.as_ref().filter(|_| of_agent) else { return Vec::new() };
    let plain = LineSanitizer::default().push(&payload_text(printed));
    let lines: Vec<&str> = plain.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(STDERR_LINES)..];
    if last.is_empty() {
        return Vec::new();
    }
    let shown = last.iter().map(|line| {
        let short: String = line.chars().take(STDERR_CHARS).collect();
        let more = if short.len() < line.len() { "…" } else { "" };
        format!("  | {short}{more}")
    });
    let head = field("printed", "last lines of stderr; `slipway task log` has everything");
    std::iter::once(head).chain(shown).collect()
}

/// Returns whether the message adds to the headline.
fn message_adds(result: &TaskResult) -> bool {
    match result.failure_reason {
        Some(
            FailureReason::SpawnFailed
            | FailureReason::ModelFailed
            | FailureReason::BudgetExceeded
            | FailureReason::Lost
            | FailureReason::SandboxFailed
            | FailureReason::Internal,
        ) => true,
        // The headline has the exit code, but not the agent's own message.
        Some(FailureReason::AgentFailed) => {
            !matches!(&result.exit, Some(Exit::Exited { code: 1.. } | Exit::Signalled { .. } | Exit::Oom))
        }
        Some(
            FailureReason::TimedOut
            | FailureReason::IdleTimedOut
            | FailureReason::Cancelled
            | FailureReason::BuildFailed,
        )
        | None => false,
    }
}

fn headline(result: &TaskResult, style: Style) -> String {
    let time = format!("after {}{}", elapsed(result.durations.total_ms), times(&result.durations));
    let (colour, status, why) = match result.status {
        TaskStatus::Succeeded => (Colour::Green, "succeeded", String::new()),
        TaskStatus::Cancelled => (Colour::Yellow, "cancelled", String::new()),
        // No result has one of the other two.
        TaskStatus::Failed | TaskStatus::Queued | TaskStatus::Running => {
            (Colour::Red, "failed", format!(": {}", why(result)))
        }
    };
    format!("{} {time}{why}", style.paint(colour, status))
}

fn why(result: &TaskResult) -> String {
    let text = match (result.failure_reason, &result.exit) {
        (Some(FailureReason::AgentFailed), Some(Exit::Exited { code })) => {
            return format!("the agent exited {code}");
        }
        (Some(FailureReason::AgentFailed), Some(Exit::Signalled { signal })) => {
            return format!("the agent was killed by signal {signal}");
        }
        (Some(FailureReason::AgentFailed), Some(Exit::Oom)) => {
            "the agent was killed by the kernel: the sandbox ran out of memory"
        }
        (Some(FailureReason::AgentFailed), _) => "the agent failed",
        (Some(FailureReason::TimedOut), _) => "the time limit was exceeded",
        (Some(FailureReason::IdleTimedOut), _) => {
            "the agent printed nothing for longer than the idle timeout"
        }
        (Some(FailureReason::Cancelled), _) => "it was cancelled",
        (Some(FailureReason::SpawnFailed), _) => "the agent could not be started",
        (Some(FailureReason::BuildFailed), _) => "the build failed after the agent succeeded",
        (Some(FailureReason::ModelFailed), _) => "the model provider failed",
        (Some(FailureReason::BudgetExceeded), _) => "the model budget is used up",
        (Some(FailureReason::Lost), _) => "the sandbox stopped or died",
        (Some(FailureReason::SandboxFailed), _) => "the sandbox could not be started",
        (Some(FailureReason::Internal), _) => "internal error of slipway",
        (None, _) => "unknown reason",
    };
    text.to_owned()
}

/// Formats the phases that took a noticeable part of the time.
fn times(durations: &Durations) -> String {
    let phases = [
        ("queued", durations.queued_ms),
        ("preparing", durations.preparing_ms),
        ("checkpoint", durations.checkpoint_ms),
        ("agent", durations.agent_ms),
        ("build", durations.build_ms),
        ("health", durations.health_ms),
    ];
    let long = phases.iter().filter(|(_, ms)| *ms >= 100 && ms * 20 >= durations.total_ms);
    let text: Vec<String> = long.map(|(name, ms)| format!("{name} {}", elapsed(*ms))).collect();
    if text.is_empty() { String::new() } else { format!(" ({})", text.join(", ")) }
}

fn files(changes: Option<&Changes>, style: Style, listing: Listing) -> Vec<String> {
    let Some(changes) = changes else { return vec![field("files", "not known")] };
    let kinds = [(changes.added, "added"), (changes.modified, "modified"), (changes.deleted, "deleted")];
    let text: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} {kind}")).collect();
    if text.is_empty() {
        return vec![field("files", "none changed")];
    }
    let lines_changed = counts(changes.added_lines, changes.deleted_lines);
    let mut lines = vec![field("files", &format!("{}{lines_changed}", text.join(", ")))];
    let shown = match listing {
        Listing::AfterEvents { files: 0 } => FILES_SHOWN,
        Listing::AfterEvents { .. } => return lines,
        Listing::Whole => usize::MAX,
    };
    lines.extend(changes.files.iter().take(shown).map(|file| format!("    {}", style.file(file))));
    let total = changes.added + changes.modified + changes.deleted;
    let listed = u64::try_from(changes.files.len().min(shown)).unwrap_or(u64::MAX);
    if total > listed {
        lines.push(format!("    … and {} more", total - listed));
    }
    lines
}

fn build(result: &TaskResult, listing: Listing) -> Vec<String> {
    let build = &result.build;
    let time = elapsed(build.duration_ms);
    let text = match build.status {
        BuildStatus::Skipped => return Vec::new(),
        BuildStatus::Passed => format!("passed in {time}"),
        BuildStatus::Failed => match &build.exit {
            Some(Exit::Exited { code }) => format!("exited {code} after {time}"),
            Some(Exit::TimedOut) => format!("timed out after {time}"),
            _ => format!("failed after {time}"),
        },
    };
    let mut lines = vec![field("build", &text)];
    if let (Listing::Whole, Some(output)) = (listing, &build.output) {
        lines.extend(indented(&payload_text(output)));
    }
    lines
}

fn health(health: &HealthOutcome) -> Option<String> {
    match health.status {
        HealthStatus::Unknown => None,
        HealthStatus::Healthy => Some(field("health", "every service is ready")),
        HealthStatus::Unhealthy => {
            let names: Vec<&str> = health.unready.iter().map(protocol::ServiceName::as_str).collect();
            Some(field("health", &format!("not ready: {}", names.join(", "))))
        }
    }
}

/// Describes an incomplete or missing checkpoint. The id is not shown: no command takes it.
pub fn checkpoint(checkpoint: &Checkpoint) -> Option<String> {
    match checkpoint {
        Checkpoint::Taken { id: _, skipped: 0 } => None,
        Checkpoint::Taken { id: _, skipped } => Some(format!("without {skipped} files")),
        Checkpoint::Unavailable { why } => Some(format!("none: {}", one_line(why, MESSAGE_CHARS))),
    }
}

fn indented(text: &str) -> Vec<String> {
    let plain = LineSanitizer::default().push(text);
    plain.lines().map(|line| format!("  | {line}")).collect()
}

fn field(name: &str, value: &str) -> String {
    format!("  {name:<10}  {value}").trim_end().to_owned()
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
