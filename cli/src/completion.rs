//! Dynamic shell completion, run by the shell's script on Tab. It prints no errors, returns within a time limit, and
//! offers only plain words that need no quoting.
//!
//! ```text
//! Tab ─▶ script of `slipway completions` ─▶ SLIPWAY_COMPLETE=bash slipway -- WORDS ─▶ candidates, one a line
//! ```

mod candidates;
mod typed_words;

use crate::args::Args;
use candidates::Candidate;
use clap::CommandFactory as _;
use clap_complete::{CompleteEnv, CompletionCandidate, engine::ArgValueCompleter, env::Shells};
use std::{ffi::OsStr, io, sync::Arc};
use typed_words::TypedWords;

/// Environment variable with the name of the shell; set by its script.
const VARIABLE: &str = "SLIPWAY_COMPLETE";

/// What completes an argument: a resource of hostd, or a context of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompletionKind {
    Sandbox,
    Task,
    Service,
    Exec,
    Snapshot,
    Webhook,
    Context,
}

impl CompletionKind {
    /// Returns the kind for the value name of an argument.
    fn of(value_name: &str) -> Option<Self> {
        match value_name {
            "SANDBOX" => Some(Self::Sandbox),
            "TASK" => Some(Self::Task),
            "SERVICE" => Some(Self::Service),
            "EXEC" => Some(Self::Exec),
            "SNAPSHOT" => Some(Self::Snapshot),
            "WEBHOOK" => Some(Self::Webhook),
            "CONTEXT" => Some(Self::Context),
            _ => None,
        }
    }
}

/// Prints completions and returns an exit code when the shell's script runs this process; otherwise `None`.
pub fn run_if_requested() -> Option<u8> {
    std::env::var_os(VARIABLE).filter(|shell| !shell.is_empty())?;
    let words = Arc::new(TypedWords::of_this_process());
    let factory = || with_completers(Args::command(), &words);
    let here = std::env::current_dir().ok();
    let completed =
        CompleteEnv::with_factory(factory).var(VARIABLE).try_complete(std::env::args_os(), here.as_deref());
    match completed {
        Ok(true) => Some(0),
        Ok(false) => None,
        // The user is typing: an error message would disturb the prompt.
        Err(_) => Some(1),
    }
}

/// Returns the completion script of a shell.
pub fn script(shell: clap_complete::Shell) -> io::Result<Vec<u8>> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let shell = shells.completer(&shell.to_string()).ok_or(io::ErrorKind::Unsupported)?;
    shell.write_registration(VARIABLE, "slipway", "slipway", "slipway", &mut script)?;
    Ok(script)
}

/// Attaches completers to every argument that names a resource of hostd or a context.
fn with_completers(command: clap::Command, words: &Arc<TypedWords>) -> clap::Command {
    let command = command.mut_args(|arg| {
        let kind = arg.get_value_names().and_then(|names| CompletionKind::of(names.first()?.as_str()));
        // `--id` names a new resource, which hostd does not know yet.
        let new = arg.get_long() == Some("id");
        match kind.filter(|_| !new) {
            Some(kind) => {
                let words = Arc::clone(words);
                arg.add(ArgValueCompleter::new(move |current: &OsStr| complete(kind, &words, current)))
            }
            None => arg,
        }
    });
    let names: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    names
        .into_iter()
        .fold(command, |command, name| command.mut_subcommand(name, |inner| with_completers(inner, words)))
}

fn complete(kind: CompletionKind, words: &TypedWords, current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let found = candidates::find(kind, words);
    let fitting = found.into_iter().filter(|candidate| candidate.fits(current));
    fitting
        .map(|Candidate { value, help, .. }| CompletionCandidate::new(value).help(Some(help.into())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects completed arguments as `command ARGUMENT`.
    fn completed(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        for arg in command.get_arguments().filter(|arg| arg.get::<ArgValueCompleter>().is_some()) {
            found.push(format!("{path}{} {}", command.get_name(), arg.get_id()));
        }
        for inner in command.get_subcommands() {
            completed(inner, &format!("{path}{} ", command.get_name()), found);
        }
    }

    #[test]
    #[allow(clippy::too_many_lines)] // The list of them.
    fn every_argument_that_names_something_is_completed() {
        let mut found = Vec::new();
        completed(
            &with_completers(Args::command(), &Arc::new(TypedWords::new(Vec::new(), 0))),
            "",
            &mut found,
        );
        insta::assert_snapshot!(found.join("\n"), @r"
        slipway context
        slipway get sandbox
        slipway run sandbox
        slipway task submit sandbox
        slipway task ls sandbox
        slipway task get sandbox
        slipway task get task
        slipway task follow sandbox
        slipway task follow task
        slipway task log sandbox
        slipway task log task
        slipway task diff sandbox
        slipway task diff task
        slipway task revert sandbox
        slipway task revert task
        slipway task allow sandbox
        slipway task allow task
        slipway task deny sandbox
        slipway task deny task
        slipway task cancel sandbox
        slipway task cancel task
        slipway agents sandbox
        slipway acp sandbox
        slipway exec sandbox
        slipway sh sandbox
        slipway attach sandbox
        slipway attach exec
        slipway git status sandbox
        slipway git diff sandbox
        slipway git log sandbox
        slipway git commit sandbox
        slipway git branch sandbox
        slipway git push sandbox
        slipway git fetch sandbox
        slipway start sandboxes
        slipway stop sandboxes
        slipway pause sandboxes
        slipway resume sandboxes
        slipway recreate sandboxes
        slipway rm sandboxes
        slipway services sandbox
        slipway service sandbox
        slipway service service
        slipway logs sandbox
        slipway logs service
        slipway events sandbox
        slipway ps sandbox
        slipway ports sandbox
        slipway forward sandbox
        slipway preview-link sandbox
        slipway share sandbox
        slipway unshare sandbox
        slipway shares sandbox
        slipway egress sandbox
        slipway limits sandbox
        slipway attempts sandbox
        slipway snapshot create sandbox
        slipway snapshot ls sandbox
        slipway snapshot inspect snapshot
        slipway snapshot manifest snapshot
        slipway snapshot verify snapshot
        slipway snapshot restore snapshot
        slipway snapshot restore into
        slipway snapshot export snapshot
        slipway snapshot rm snapshots
        slipway context use name
        slipway context show name
        slipway context rm names
        slipway webhook add sandbox
        slipway webhook show webhook
        slipway webhook set webhook
        slipway webhook rotate webhook
        slipway webhook rm webhooks
        slipway webhook test webhook
        slipway webhook deliveries webhook
        slipway webhook redeliver webhook
        ");
    }
}
