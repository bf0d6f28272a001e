//! Tool calls of an agent: tracks updates and reports what changed.

use super::limits::{TOOL_OUTPUT_EVERY_MS, TOOLS_KNOWN_MAX};
use super::permission_rules::Subjects;
use super::tool_fields::{
    diffs, exit_code, exit_code_in_text, id, is_nothing, kind_by_input, output, paths, printed, status,
};
use crate::core::json_fields::{cut, first_text, tail};
use crate::core::tool_limits::{self, ID_MAX_BYTES, OUTPUT_MAX_BYTES, TITLE_MAX_BYTES};
use protocol::{Tool, ToolStatus};
use serde_json::Value;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The most recent tool calls and what was reported of each.
#[derive(Debug, Default)]
pub struct Tools {
    known: VecDeque<ToolState>,
    /// The turn was cancelled. Agents report tools that the cancel ended as completed.
    cancelled: bool,
}

#[derive(Debug, Clone, Default)]
struct ToolState {
    /// Everything known of the tool, for permission requests; without output and diffs.
    tool: Tool,
    subjects: Subjects,
    /// Hashes of what was reported last: the texts may be long.
    reported: ReportedTool,
    /// Output that arrives in increments.
    printed: String,
    printed_cut: bool,
    /// Output that is not reported yet, and when it is due.
    held: Option<(String, bool)>,
    due: u64,
}

#[derive(Debug, Clone, Default)]
struct ReportedTool {
    any: bool,
    status: ToolStatus,
    input: Option<u64>,
    output: Option<u64>,
    diffs: Option<u64>,
}

impl Tools {
    /// Takes an update; returns what changed.
    pub fn update(&mut self, update: &Value, now: u64) -> Option<Tool> {
        let (id, cancelled) = (id(update)?, self.cancelled);
        let known = self.entry(&id);
        let mut news = Tool { id, ..Tool::default() };
        let was = known.tool.status;
        known.merge(update, &mut news);
        if cancelled && known.was_cut_off(was) {
            known.tool.status = ToolStatus::Cancelled;
        }
        let (output, cut) = known.output(update);
        news.status = known.tool.status;
        let quiet = known.reported.any && known.adds_nothing(&news) && news.status == known.reported.status;
        if let Some(output) = output {
            let number = hash(&output);
            if known.reported.output == Some(number) {
                known.held = None;
            } else if quiet && now < known.due {
                known.held = Some((output, cut));
            } else {
                known.report_output(&mut news, output, cut, now);
            }
        } else if !quiet && let Some((output, cut)) = known.held.take() {
            known.report_output(&mut news, output, cut, now);
        }
        let is_news = !known.reported.any || !known.adds_nothing(&news) || news.output.is_some();
        if !is_news && known.reported.status == news.status {
            return None;
        }
        (known.reported.any, known.reported.status) = (true, news.status);
        Some(tool_limits::truncate(news))
    }

    /// Marks tools that have not ended by now as cancelled when they end.
    pub fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// Reports output whose delay is over.
    pub fn tick(&mut self, now: u64) -> Vec<Tool> {
        let due = self.known.iter_mut().filter(|known| known.held.is_some() && known.due <= now);
        due.filter_map(|known| known.flush_output(now)).collect()
    }

    /// Reports all output that is held back.
    pub fn flush(&mut self) -> Vec<Tool> {
        self.known.iter_mut().filter_map(|known| known.flush_output(0)).collect()
    }

    pub fn next_wake(&self) -> Option<u64> {
        self.known.iter().filter(|known| known.held.is_some()).map(|known| known.due).min()
    }

    /// Describes the tool of a permission request: all that is known, plus what the request adds.
    pub fn describe(&mut self, update: &Value) -> (Tool, Subjects) {
        let id = id(update).unwrap_or_default();
        let mut about = Tool { id: id.clone(), ..Tool::default() };
        // On a copy: fields that only the request carries were not reported as tool events.
        let mut known = self.entry(&id).clone();
        known.merge(update, &mut about);
        let whole =
            Tool { diffs: about.diffs, truncated: known.tool.truncated || about.truncated, ..known.tool };
        let mut subjects = known.subjects;
        if subjects.is_empty() {
            // Some agents name the command only in the title.
            whole.title.iter().for_each(|title| subjects.add(title));
        }
        (tool_limits::truncate(whole), subjects)
    }

    fn entry(&mut self, id: &str) -> &mut ToolState {
        let at = self.known.iter().position(|known| known.tool.id == id).unwrap_or_else(|| {
            if self.known.len() >= TOOLS_KNOWN_MAX {
                self.known.pop_front();
            }
            let tool = Tool { id: id.to_owned(), ..Tool::default() };
            self.known.push_back(ToolState { tool, ..ToolState::default() });
            self.known.len() - 1
        });
        &mut self.known[at]
    }
}

impl ToolState {
    /// Whether a tool that was open at status `was` has now ended without a sign of completed work: an exit
    /// code of 0, or a changed file.
    fn was_cut_off(&self, was: ToolStatus) -> bool {
        let open = |status| match status {
            ToolStatus::Pending | ToolStatus::Running => true,
            ToolStatus::Completed | ToolStatus::Failed | ToolStatus::Cancelled => false,
        };
        let worked = self.tool.status == ToolStatus::Completed
            && (self.tool.exit_code == Some(0) || self.reported.diffs.is_some());
        (open(was) || was == ToolStatus::Cancelled) && !open(self.tool.status) && !worked
    }

    /// Merges everything but output, and puts changed fields into `news`.
    fn merge(&mut self, update: &Value, news: &mut Tool) {
        if let Some(title) =
            first_text(update, &["title"]).map(|title| cut(title, TITLE_MAX_BYTES).to_owned())
            && self.tool.title.as_ref() != Some(&title)
        {
            news.title = Some(title.clone());
            self.tool.title = Some(title);
        }
        let guessed = || if self.tool.tool.is_none() { kind_by_input(update) } else { None };
        let kind = first_text(update, &["kind"]).map(|kind| cut(kind, ID_MAX_BYTES)).or_else(guessed);
        if let Some(kind) = kind.map(str::to_owned)
            && self.tool.tool.as_ref() != Some(&kind)
        {
            news.tool = Some(kind.clone());
            self.tool.tool = Some(kind);
        }
        self.tool.status = status(update).unwrap_or(self.tool.status);
        self.merge_input(update, news);
        let paths = paths(update);
        if !paths.is_empty() && paths != self.tool.paths {
            news.paths.clone_from(&paths);
            // The working directory of a command is not its subject.
            if self.tool.tool.as_deref() != Some("execute") {
                paths.iter().for_each(|path| self.subjects.add(path));
            }
            self.tool.paths = paths;
        }
        let diffs = diffs(update);
        let number = hash(&format!("{diffs:?}"));
        if !diffs.is_empty() && self.reported.diffs != Some(number) {
            diffs.iter().for_each(|diff| self.subjects.add(&diff.path));
            self.reported.diffs = Some(number);
            news.diffs = diffs;
        }
        if let Some(code) = exit_code(update)
            && self.tool.exit_code != Some(code)
        {
            (news.exit_code, self.tool.exit_code) = (Some(code), Some(code));
        }
    }

    fn merge_input(&mut self, update: &Value, news: &mut Tool) {
        let Some(input) = update.get("rawInput").filter(|input| !is_nothing(input)) else { return };
        let number = hash(&input.to_string());
        if self.reported.input == Some(number) {
            return;
        }
        self.reported.input = Some(number);
        self.subjects.add_input(input);
        let fitting = tool_limits::truncate(Tool { input: Some(input.clone()), ..Tool::default() });
        (news.truncated, self.tool.truncated) = (news.truncated || fitting.truncated, fitting.truncated);
        (news.input, self.tool.input) = (fitting.input.clone(), fitting.input);
    }

    /// All output so far, as far as it is kept, and whether some is missing.
    fn output(&mut self, update: &Value) -> (Option<String>, bool) {
        if let Some(piece) = printed(update) {
            self.printed.push_str(piece);
            if self.printed.len() > OUTPUT_MAX_BYTES {
                self.printed = tail(&self.printed, OUTPUT_MAX_BYTES).to_owned();
                self.printed_cut = true;
            }
            return (Some(self.printed.clone()), self.printed_cut);
        }
        let Some(output) = output(update) else { return (None, false) };
        let kept = tail(&output, OUTPUT_MAX_BYTES);
        (Some(kept.to_owned()), kept.len() < output.len())
    }

    fn report_output(&mut self, news: &mut Tool, output: String, cut: bool, now: u64) {
        if self.tool.exit_code.is_none() && self.tool.status == ToolStatus::Failed {
            news.exit_code = exit_code_in_text(&output);
            self.tool.exit_code = news.exit_code;
        }
        self.reported.output = Some(hash(&output));
        self.held = None;
        self.due = now.saturating_add(TOOL_OUTPUT_EVERY_MS);
        news.truncated |= cut;
        news.output = Some(output);
    }

    fn flush_output(&mut self, now: u64) -> Option<Tool> {
        let (output, cut) = self.held.take()?;
        let mut news = Tool { id: self.tool.id.clone(), status: self.tool.status, ..Tool::default() };
        self.report_output(&mut news, output, cut, now);
        Some(tool_limits::truncate(news))
    }

    /// Whether `news` holds nothing beyond id, status and output.
    fn adds_nothing(&self, news: &Tool) -> bool {
        let nothing = Tool {
            id: news.id.clone(),
            status: news.status,
            output: news.output.clone(),
            truncated: news.truncated,
            ..Tool::default()
        };
        *news == nothing
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
