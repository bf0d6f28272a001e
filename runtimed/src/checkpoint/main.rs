//! The process: one request as its argument, one answer on standard output.

use super::git::{Git, GitError};
use super::{Answer, Request, Verb, changes, store, tree};
use std::io::Write;
use std::process::ExitCode;

pub fn main(request: Option<&str>) -> ExitCode {
    let Some(request) = request.and_then(|text| serde_json::from_str::<Request>(text).ok()) else {
        eprintln!("runtimed: checkpoint takes a request as JSON");
        return ExitCode::from(64);
    };
    let answer = answer(&request).unwrap_or_else(|error| Answer::Unavailable { why: error.to_string() });
    let told = serde_json::to_string(&answer).map(|json| {
        let mut out = std::io::stdout().lock();
        out.write_all(json.as_bytes()).and_then(|()| out.flush())
    });
    // After the answer: whoever waits too long for this has it already.
    let git = Git::new(&request);
    match answer {
        Answer::Taken { .. } => store::forget_old(&git, &request.task),
        Answer::Changed(_) => store::pack(&git),
        Answer::Unavailable { .. } => {}
    }
    if matches!(told, Ok(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::from(70) }
}

pub(super) fn answer(request: &Request) -> Result<Answer, GitError> {
    let git = Git::new(request);
    store::prepare(&git)?;
    let (tree, skipped) = tree::record(&git).or_else(|_| {
        // A damaged index, or files that changed under our hands: once more from nothing.
        store::forget_index(&git);
        tree::record(&git)
    })?;
    match &request.verb {
        Verb::Take => Ok(Answer::Taken { id: store::keep(&git, &request.task, &tree)?, skipped }),
        Verb::Changes { since } => Ok(Answer::Changed(changes::between(&git, since, &tree)?)),
    }
}
