//! `slipway task diff`: what a task changed, as a diff or as a list with counts.

use super::{
    TaskRef,
    style::{Style, counts, decoded, payload_text},
};
use crate::{
    client::ApiRequest,
    context::Context,
    failure::{Failure, eprint_line},
    output::Colour,
    sanitize::{LineSanitizer, one_line},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::Args;
use protocol::{
    FileChange, Payload,
    api::{ChangesState, FileDiffView, TaskChangesView},
};
use std::{ffi::OsString, os::unix::ffi::OsStrExt as _};

const PATH_CHARS: usize = 200;

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Only this file, relative to the app directory
    #[arg(value_name = "PATH")]
    path: Option<OsString>,
    /// List the files with counts of lines, without their diffs
    #[arg(long)]
    stat: bool,
}

/// Prints the changes. On a terminal they are coloured and sanitized; elsewhere the diff is what `git apply` reads.
pub async fn diff(context: &Context, task: &TaskRef, args: &DiffArgs, style: Style) -> Result<(), Failure> {
    let changes = fetch(context, task, args.path.as_ref()).await?;
    if context.output.json {
        return context.output.json(&changes);
    }
    if let ChangesState::Unavailable = changes.state {
        let reason = changes.reason.as_deref().unwrap_or("nothing was recorded");
        let reason = one_line(reason, PATH_CHARS);
        return Err(Failure::new(format!("the changes of task {} are not known: {reason}", task.id)));
    }
    if args.stat {
        return context.output.text(&stat(&changes, style));
    }
    for file in &changes.files {
        match &file.diff {
            Some(diff) if style.terminal => context.output.text(&shown(diff, style))?,
            Some(diff) => context.output.bytes(&decoded(&diff.data, diff.encoding))?,
            None => {}
        }
    }
    for note in notes(&changes, args.path.is_some()) {
        eprint_line(&format!("slipway: {note}"));
    }
    Ok(())
}

/// Reads all pages into one.
async fn fetch(
    context: &Context,
    task: &TaskRef,
    path: Option<&OsString>,
) -> Result<TaskChangesView, Failure> {
    let request = |after: Option<String>| {
        let request = ApiRequest::get(format!("{}/changes", task.path())).long_pages();
        let text = path.and_then(|path| path.to_str());
        let bytes = path.filter(|path| path.to_str().is_none()).map(|path| STANDARD.encode(path.as_bytes()));
        request.query_if("after", after).query_if("path", text).query_if("path_base64", bytes)
    };
    let mut changes: TaskChangesView = context.client.send(request(None)).await?.parse()?;
    while let Some(after) = changes.next.take() {
        let more: TaskChangesView = context.client.send(request(Some(after))).await?.parse()?;
        changes.files.extend(more.files);
        changes.next = more.next;
    }
    Ok(changes)
}

fn stat(changes: &TaskChangesView, style: Style) -> String {
    let mut lines = String::new();
    for file in &changes.files {
        let path = match &file.path_base64 {
            Some(bytes) => Payload { data: bytes.clone(), encoding: protocol::Encoding::Base64 },
            None => Payload { data: file.path.clone(), encoding: protocol::Encoding::Utf8 },
        };
        let (added_lines, deleted_lines) = (file.added_lines, file.deleted_lines);
        let binary = if file.binary { " (binary)" } else { "" };
        let change = FileChange { path, change: file.kind, added_lines, deleted_lines };
        lines.push_str(&format!("{}{binary}\n", style.file(&change)));
    }
    let all = changes.added + changes.modified + changes.deleted;
    let unlisted = all.saturating_sub(changes.files.len() as u64);
    if changes.truncated && unlisted > 0 {
        lines.push_str(&style.dim(&format!("… {unlisted} more files\n")));
    }
    let files = if all == 1 { "file" } else { "files" };
    let counts = counts(changes.added_lines, changes.deleted_lines);
    lines.push_str(&format!("{all} {files} changed{counts}\n"));
    lines
}

/// What the diff does not show.
fn notes(changes: &TaskChangesView, one: bool) -> Vec<String> {
    let mut notes: Vec<String> =
        changes.files.iter().filter(|file| !file.whole).map(|file| note(file, one)).collect();
    if changes.truncated && !one {
        notes.push("more files changed than are listed".to_owned());
    }
    notes
}

fn note(file: &FileDiffView, one: bool) -> String {
    let path = one_line(&file.path, PATH_CHARS);
    if one {
        return format!(
            "the diff of {path} was not recorded, and the sandbox does not give it: is it running?"
        );
    }
    format!("the diff of {path} is too large to be recorded; name the file to ask the sandbox, while it runs")
}

/// A diff for a terminal, one sanitized line for each of its lines.
fn shown(diff: &Payload, style: Style) -> String {
    let text = payload_text(diff);
    let mut lines = String::new();
    // The lines before the first hunk name the file.
    let mut heading = true;
    for line in text.split_terminator('\n') {
        heading = (heading && !line.starts_with("@@")) || line.starts_with("diff --git ");
        let colour = match line.as_bytes().first() {
            _ if heading => Some(Colour::Bold),
            Some(b'+') => Some(Colour::Green),
            Some(b'-') => Some(Colour::Red),
            Some(b'@') => Some(Colour::Dim),
            Some(_) | None => None,
        };
        let tame = LineSanitizer::default().push(line).replace(['\n', '\r'], " ");
        lines.push_str(&colour.map_or_else(|| tame.clone(), |colour| style.paint(colour, &tame)));
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Output;
    use serde_json::json;

    const PLAIN: Style = Style { output: Output { json: false, colour: false }, terminal: true };

    fn changes(files: &serde_json::Value) -> TaskChangesView {
        serde_json::from_value(json!({
            "state": "recorded", "added": 1, "modified": 2, "deleted": 1, "added_lines": 7, "deleted_lines": 2,
            "truncated": true, "files": files,
        }))
        .expect("changes")
    }

    #[test]
    fn a_list_has_counts_and_what_is_missing() {
        let two = changes(&json!([
            { "path": "src/a.rs", "kind": "modified", "added_lines": 7, "deleted_lines": 1, "binary": false, "whole": true },
            { "path": "x\n\u{1b}[2Jy", "kind": "added", "binary": true, "whole": false },
            { "path": "\u{fffd}", "path_base64": "/w==", "kind": "deleted", "binary": false, "whole": true },
        ]));
        insta::assert_snapshot!(stat(&two, PLAIN), @r"
        M src/a.rs +7 -1
        A x y (binary)
        D �
        … 1 more files
        4 files changed +7 -2
        ");
        assert_eq!(notes(&two, false).len(), 2);
    }

    #[test]
    fn a_diff_is_one_tame_line_for_each_of_its_lines() {
        let diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+\u{1b}[2J\u{9b}1mfake\rover\u{202e}\n \n";
        let diff = Payload { data: diff.to_owned(), encoding: protocol::Encoding::Utf8 };
        insta::assert_snapshot!(shown(&diff, PLAIN), @r"
        diff --git a/x b/x
        --- a/x
        +++ b/x
        @@ -1,2 +1,2 @@
        -a
        +fake over
         
        ");
    }
}
