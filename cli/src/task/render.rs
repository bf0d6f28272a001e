//! Renders task events for people, as bytes to print. Pure.

use super::{
    diff,
    model_usage::error_line,
    parse_event::{ParsedFact, fields, parse_fact},
    permission::{describe, outcome},
    style::{Style, decoded, elapsed},
    summary::{Listing, checkpoint, summary},
    tool::{FinishedCall, OpenCalls, Outcome},
};
use crate::{
    output::Colour,
    sanitize::{LineSanitizer, one_line},
    text::wire_name,
};
use protocol::{
    BuildOutcome, BuildStatus, ModelCall, ModelCallState, ModelFact, Permission, PermissionState, PlanEntry,
    Stream, TaskFact, TaskPhase, Text, Tool, api::TaskEventView,
};

/// Characters of the details of a call, a plan entry or a permission.
const DETAIL_CHARS: usize = 120;
/// Entries of a plan that are shown.
const PLAN_ENTRIES: usize = 50;
/// Models of a task that are shown.
const MODELS_MAX: usize = 16;

/// The source of text lines; each source may be in the middle of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextSource {
    Message,
    Thought,
    Log(Stream),
}

impl TextSource {
    const COUNT: usize = 5;

    fn index(self) -> usize {
        match self {
            Self::Message => 0,
            Self::Thought => 1,
            Self::Log(Stream::Stdout) => 2,
            Self::Log(Stream::Stderr) => 3,
            Self::Log(Stream::Pty) => 4,
        }
    }
}

pub struct EventRenderer {
    style: Style,
    /// Source of the unfinished line on the screen.
    open: Option<TextSource>,
    sanitizers: [LineSanitizer; TextSource::COUNT],
    calls: OpenCalls,
    files: u64,
    number: Option<u64>,
    /// Models that were called so far.
    models: Vec<String>,
    activity: String,
    /// Whether the reader is prompted for permissions, so that no instructions are printed.
    reader_answers: bool,
}

impl EventRenderer {
    pub fn new(style: Style) -> Self {
        Self {
            style,
            open: None,
            sanitizers: [LineSanitizer::default(); TextSource::COUNT],
            calls: OpenCalls::default(),
            files: 0,
            number: None,
            models: Vec::new(),
            activity: "waiting".to_owned(),
            reader_answers: false,
        }
    }

    /// Sets whether the reader is prompted for permissions.
    pub fn answering(self, reader_answers: bool) -> Self {
        Self { reader_answers, ..self }
    }

    /// Returns whether the cursor is in the middle of a line.
    pub fn is_mid_line(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the current activity in a few words.
    pub fn current_activity(&self) -> &str {
        &self.activity
    }

    pub fn event(&mut self, event: &TaskEventView) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(here) = event.number {
            let missing = self.number.map_or(0, |number| here.saturating_sub(number + 1));
            if missing > 0 {
                self.lines(&mut out, &[self.note(&format!("{missing} events are missing here"))]);
            }
            self.number = Some(here);
        }
        match parse_fact(event) {
            ParsedFact::Known(TaskFact::Permission(permission)) => {
                let lines = self.permission(event, &permission);
                self.lines(&mut out, &lines);
            }
            ParsedFact::Known(fact) => self.fact(&mut out, fact),
            ParsedFact::Unknown(map) => {
                let line = self.note(&one_line(&format!("{} {}", event.kind, fields(&map)), DETAIL_CHARS));
                self.lines(&mut out, &[line]);
            }
        }
        out
    }

    fn fact(&mut self, out: &mut Vec<u8>, fact: TaskFact) {
        let lines = match fact {
            TaskFact::Message(text) => return self.text(out, TextSource::Message, &text),
            TaskFact::Thought(text) => return self.text(out, TextSource::Thought, &text),
            TaskFact::Log { stream, text, lost_events } => {
                if let Some(lost) = lost_events {
                    self.lines(out, &[self.note(&format!("{lost} events could not be stored"))]);
                }
                return self.text(out, TextSource::Log(stream), &text);
            }
            TaskFact::Status { phase, checkpoint: point } => {
                self.activity = wire_name(&phase);
                self.status(phase, point.as_ref().and_then(checkpoint))
            }
            TaskFact::Tool(tool) => self.tool(&tool),
            TaskFact::File { file } => {
                self.files += 1;
                vec![self.style.file(&file)]
            }
            TaskFact::Plan { entries } => self.plan(&entries),
            // Handled by `event`, which knows the task.
            TaskFact::Permission(_) => Vec::new(),
            TaskFact::Model(model) => self.model(&model),
            TaskFact::Build { build } => self.build(&build),
            // The summary shows the total.
            TaskFact::Usage { .. } => Vec::new(),
            TaskFact::Done { result, told: _ } => {
                let mut lines: Vec<String> = self
                    .calls
                    .unfinished(result.status)
                    .iter()
                    .flat_map(|finished| self.finished(finished))
                    .collect();
                let listing = Listing::AfterEvents { files: self.files };
                lines.push(summary(&result, self.style, listing).trim_end().to_owned());
                lines
            }
        };
        self.lines(out, &lines);
    }

    fn status(&self, phase: TaskPhase, point: Option<String>) -> Vec<String> {
        let point = point.map(|point| format!(" (checkpoint {point})")).unwrap_or_default();
        match phase {
            // The result follows immediately.
            TaskPhase::Done => Vec::new(),
            TaskPhase::Queued
            | TaskPhase::Preparing
            | TaskPhase::Checkpoint
            | TaskPhase::Agent
            | TaskPhase::Build
            | TaskPhase::Health => vec![self.note(&format!("{}{point}", wire_name(&phase)))],
        }
    }

    fn tool(&mut self, tool: &Tool) -> Vec<String> {
        match self.calls.update(tool) {
            Some(finished) => {
                "agent".clone_into(&mut self.activity);
                self.finished(&finished)
            }
            None => {
                if let Some(title) = &tool.title {
                    self.activity = one_line(title, DETAIL_CHARS / 2);
                }
                Vec::new()
            }
        }
    }

    fn model(&mut self, model: &ModelFact) -> Vec<String> {
        match model {
            // Agents have their own names for models: the model that hostd saw is shown instead.
            ModelFact::Claimed { .. } => Vec::new(),
            ModelFact::Seen(call) => {
                let failed = call.state == ModelCallState::Failed;
                let colour = if failed { Colour::Red } else { Colour::Yellow };
                let mut lines: Vec<String> = self.new_model(call).into_iter().collect();
                lines.extend(error_line(call).map(|text| self.style.paint(colour, &format!("· {text}"))));
                lines
            }
        }
    }

    /// Returns a line for a model that was not called before.
    fn new_model(&mut self, call: &ModelCall) -> Option<String> {
        let name = format!("{}/{}", call.provider, call.model);
        // No provider was called where the gateway itself refused.
        let asked = !call.provider.is_empty() && !call.model.is_empty();
        if !asked || self.models.contains(&name) || self.models.len() >= MODELS_MAX {
            return None;
        }
        let line = self.note(&format!("model {}", one_line(&name, DETAIL_CHARS)));
        self.models.push(name);
        Some(line)
    }

    fn finished(&self, finished: &FinishedCall) -> Vec<String> {
        let name = one_line(&finished.name, DETAIL_CHARS / 2);
        let detail = one_line(&finished.detail, DETAIL_CHARS);
        let status = one_line(&finished.status, DETAIL_CHARS / 4);
        let colour = match finished.outcome {
            Outcome::Done => Colour::Green,
            Outcome::Failed => Colour::Red,
            Outcome::Cancelled => Colour::Yellow,
        };
        let gap = if detail.is_empty() { "" } else { " " };
        let (name, status) = (self.style.paint(Colour::Bold, &name), self.style.paint(colour, &status));
        let printed = finished.output.iter().map(|line| format!("  | {}", one_line(line, DETAIL_CHARS)));
        let printed = printed.map(|line| self.style.dim(&line));
        std::iter::once(format!("> {name}{gap}{detail}  {status}")).chain(printed).collect()
    }

    fn plan(&self, entries: &[PlanEntry]) -> Vec<String> {
        let entry = |entry: &PlanEntry| {
            let mark = match entry.status.as_str() {
                "completed" => 'x',
                "in_progress" => '~',
                _ => ' ',
            };
            self.style.dim(&format!("  [{mark}] {}", one_line(&entry.content, DETAIL_CHARS)))
        };
        let head = std::iter::once(self.note("plan"));
        head.chain(entries.iter().take(PLAN_ENTRIES).map(entry)).collect()
    }

    fn permission(&self, event: &TaskEventView, permission: &Permission) -> Vec<String> {
        match (permission.state, outcome(permission)) {
            (PermissionState::Asked, _) | (_, None) => {
                let question =
                    self.style.paint(Colour::Yellow, &format!("? allow: {}", describe(permission)));
                let (sandbox, task, id) =
                    (event.sandbox, &event.task, one_line(&permission.id, DETAIL_CHARS));
                let how = format!(
                    "  answer with `slipway task allow {sandbox} {task} {id}`, or `slipway task deny …`"
                );
                let mut lines = vec![question];
                lines.extend(diff::lines(permission, self.style));
                lines.extend((!self.reader_answers).then_some(how));
                lines
            }
            (PermissionState::Denied, Some(text)) => {
                vec![self.style.paint(Colour::Yellow, &format!("· {text}"))]
            }
            (PermissionState::Allowed | PermissionState::Withdrawn, Some(text)) => vec![self.note(&text)],
        }
    }

    fn build(&self, build: &BuildOutcome) -> Vec<String> {
        let time = elapsed(build.duration_ms);
        match build.status {
            BuildStatus::Skipped => Vec::new(),
            BuildStatus::Passed => vec![self.note(&format!("build passed in {time}"))],
            // Its output was shown as it was printed.
            BuildStatus::Failed => {
                vec![self.style.paint(Colour::Red, &format!("· build failed after {time}"))]
            }
        }
    }

    fn note(&self, text: &str) -> String {
        self.style.dim(&format!("· {text}"))
    }

    /// Appends complete lines, after ending an unfinished line.
    fn lines(&mut self, out: &mut Vec<u8>, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        self.close(out);
        for line in lines {
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.open.take().is_some() {
            out.push(b'\n');
        }
    }

    /// Appends text. Parts of a line are printed as they arrive, because a line may be longer than memory; text of another
    /// source breaks the line.
    fn text(&mut self, out: &mut Vec<u8>, source: TextSource, text: &Text) {
        if self.open != Some(source) {
            self.close(out);
            if source == TextSource::Thought {
                out.extend_from_slice(self.style.dim("~ ").as_bytes());
            }
        }
        let bytes = decoded(&text.text, text.encoding);
        let sanitizer = &mut self.sanitizers[source.index()];
        if self.style.terminal {
            let shown = sanitizer.push(&String::from_utf8_lossy(&bytes));
            let dims = source != TextSource::Message && !shown.is_empty();
            out.extend_from_slice(if dims { self.style.dim(&shown) } else { shown }.as_bytes());
        } else {
            out.extend_from_slice(&bytes);
        }
        if text.partial {
            self.open = Some(source);
        } else {
            sanitizer.end_line();
            self.open = None;
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
