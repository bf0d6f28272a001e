//! `slipway task revert`: restores the files of the checkpoint before a task.

use super::{TaskRef, style::Style};
use crate::{
    client::ApiRequest, context::Context, failure::Failure, limits, output::Colour, progress::Progress,
    sanitize::one_line,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::Args;
use protocol::api::{RevertedFile, TaskRevert, TaskRevertView};
use std::{ffi::OsString, os::unix::ffi::OsStrExt as _};

const PATH_CHARS: usize = 200;

#[derive(Debug, Args)]
pub struct RevertArgs {
    /// Only this file or directory, relative to the app directory
    #[arg(value_name = "PATH")]
    path: Option<OsString>,
    /// Only show what would be restored and deleted
    #[arg(long)]
    dry_run: bool,
    /// Do not save what is replaced and deleted; also delete what could not be saved
    #[arg(long)]
    discard: bool,
}

pub async fn revert(
    context: &Context,
    task: &TaskRef,
    args: &RevertArgs,
    style: Style,
) -> Result<(), Failure> {
    let path = args.path.as_ref();
    let body = TaskRevert {
        path: path.and_then(|path| path.to_str()).map(str::to_owned),
        path_base64: path.filter(|path| path.to_str().is_none()).map(|path| STANDARD.encode(path.as_bytes())),
        dry_run: args.dry_run,
        discard: args.discard,
    };
    let progress = Progress::timed(context.output, if args.dry_run { "comparing" } else { "reverting" });
    let request = ApiRequest::post(format!("{}/revert", task.path())).json(&body);
    let response = context.client.send(request.timeout(limits::REVERT_TIMEOUT)).await?;
    drop(progress);
    context.show_response(&response, |done: TaskRevertView| Ok(shown(&done, style)))
}

fn shown(done: &TaskRevertView, style: Style) -> String {
    let mut lines = String::new();
    let (restored, deleted) = if done.dry_run { ("restore", "delete") } else { ("restored", "deleted") };
    let kept = if done.dry_run { "keep" } else { "kept" };
    let lists = [
        (restored, Colour::Green, &done.restored),
        (deleted, Colour::Red, &done.deleted),
        (kept, Colour::Yellow, &done.kept),
    ];
    for (word, colour, files) in lists {
        for file in files {
            lines.push_str(&format!("{} {}\n", style.paint(colour, word), name(file)));
        }
    }
    let counts = done.counts;
    let listed = (done.restored.len() + done.deleted.len() + done.kept.len()) as u64;
    let unlisted = (counts.restored + counts.deleted + counts.kept).saturating_sub(listed);
    if done.truncated && unlisted > 0 {
        lines.push_str(&style.dim(&format!("… {unlisted} more files\n")));
    }
    let files = if counts.restored == 1 { "file" } else { "files" };
    let summary = match (counts.restored, counts.deleted, done.dry_run) {
        (0, 0, _) if counts.kept + counts.not_restored > 0 => "nothing that could be done".to_owned(),
        (0, 0, _) => "nothing to do: the files are as before the task".to_owned(),
        (restored, deleted, false) => format!("restored {restored} {files}, deleted {deleted}"),
        (restored, deleted, true) => format!("would restore {restored} {files} and delete {deleted}"),
    };
    lines + &summary + "\n" + &notes(done)
}

/// What differs from the checkpoint, and how to get back what the revert took.
fn notes(done: &TaskRevertView) -> String {
    let mut notes = String::new();
    match (done.counts.kept, done.incomplete_checkpoint) {
        (0, _) => {}
        (kept, true) => {
            notes += &format!(
                "{kept} files added since stay: the checkpoint does not tell what it skipped, so they may be older\n"
            );
        }
        (kept, false) => {
            notes += &format!("{kept} files stay that could not be saved; --discard reverts them, too\n");
        }
    }
    if done.counts.not_restored > 0 {
        notes += &format!("{} files are missing and not in the checkpoint\n", done.counts.not_restored);
    }
    if let Some(saved) = &done.saved {
        notes += &format!(
            "saved before: git --git-dir ~/.slipway/checkpoints.git show {}:PATH\n",
            one_line(saved, PATH_CHARS)
        );
    }
    notes
}

fn name(file: &RevertedFile) -> String {
    one_line(&file.path, PATH_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Output;
    use serde_json::json;

    const PLAIN: Style = Style { output: Output { json: false, colour: false }, terminal: true };

    fn view(restored: &[&str], deleted: &[&str], more: u64, dry_run: bool) -> String {
        let files = |names: &[&str]| names.iter().map(|name| json!({"path": name})).collect::<Vec<_>>();
        let counts = json!({
            "restored": restored.len() as u64 + more, "deleted": deleted.len(), "kept": 0, "not_restored": 0,
        });
        let view = json!({
            "task": "t", "checkpoint": "c", "dry_run": dry_run, "truncated": more > 0, "counts": counts,
            "restored": files(restored), "deleted": files(deleted), "kept": [], "incomplete_checkpoint": false,
        });
        shown(&serde_json::from_value(view).expect("a view"), PLAIN)
    }

    #[test]
    fn what_stays_and_what_was_saved_is_told() {
        let mut done: TaskRevertView = serde_json::from_value(json!({
            "task": "t", "checkpoint": "c", "dry_run": false, "truncated": false, "saved": "5a7ed",
            "counts": {"restored": 0, "deleted": 1, "kept": 1, "not_restored": 2}, "restored": [],
            "deleted": [{"path": "new"}], "kept": [{"path": "dump"}], "incomplete_checkpoint": false,
        }))
        .expect("a view");
        insta::assert_snapshot!(shown(&done, PLAIN), @r"
        deleted new
        kept dump
        restored 0 files, deleted 1
        1 files stay that could not be saved; --discard reverts them, too
        2 files are missing and not in the checkpoint
        saved before: git --git-dir ~/.slipway/checkpoints.git show 5a7ed:PATH
        ");
        done.incomplete_checkpoint = true;
        assert!(shown(&done, PLAIN).contains("does not tell what it skipped"));
    }

    #[test]
    fn what_was_done_is_a_list_and_a_sentence() {
        insta::assert_snapshot!(view(&["src/a", "b\u{1b}[2J\n"], &["added"], 7, false), @r"
        restored src/a
        restored b
        deleted added
        … 7 more files
        restored 9 files, deleted 1
        ");
        insta::assert_snapshot!(view(&["a"], &[], 0, true), @r"
        restore a
        would restore 1 file and delete 0
        ");
        insta::assert_snapshot!(view(&[], &[], 0, false), @r"
        nothing to do: the files are as before the task
        ");
    }
}
