//! The checkpoint process: one request as its argument, one reply on stdout.

use super::git::{Git, GitError};
use super::{Reply, Request, Verb, changes, record_tree, repository};
use std::io::Write;
use std::process::ExitCode;

pub fn main(request: Option<&str>) -> ExitCode {
    let Some(request) = request.and_then(|text| serde_json::from_str::<Request>(text).ok()) else {
        eprintln!("runtimed: checkpoint takes a request as JSON");
        return ExitCode::from(64);
    };
    let reply = reply(&request).unwrap_or_else(|error| Reply::Unavailable { why: error.to_string() });
    let written = serde_json::to_string(&reply).map(|json| {
        let mut out = std::io::stdout().lock();
        out.write_all(json.as_bytes()).and_then(|()| out.flush())
    });
    // After the reply: a caller that stops waiting for this has it already.
    let git = Git::new(&request);
    match reply {
        Reply::Taken { .. } => repository::forget_old(&git, &request.task),
        Reply::Changed(_) => repository::pack(&git),
        Reply::Unavailable { .. } => {}
    }
    if matches!(written, Ok(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::from(70) }
}

pub(super) fn reply(request: &Request) -> Result<Reply, GitError> {
    let git = Git::new(request);
    repository::prepare(&git)?;
    let (tree, skipped) = record_tree::record(&git).or_else(|_| {
        // A damaged index, or files that changed meanwhile: tried once more from an empty index.
        repository::forget_index(&git);
        record_tree::record(&git)
    })?;
    match &request.verb {
        Verb::Take => Ok(Reply::Taken { id: repository::keep(&git, &request.task, &tree)?, skipped }),
        Verb::Changes { since } => Ok(Reply::Changed(changes::between(&git, since, &tree)?)),
    }
}
