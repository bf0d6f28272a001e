//! Status, differences and history of a repository.

use super::{
    super::{call::Call, error::CallResult, views::ok},
    runner::{GitCommand, GitRunner},
};
use hostd_core::{GIT_LOG_FORMAT, parse_git_log, parse_git_status};
use protocol::api::{GitDiff, GitLog};

/// Does not start another git in each submodule, with its configuration.
const WITHOUT_SUBMODULES: &str = "--ignore-submodules=dirty";
const LOG_DEFAULT: u64 = 20;

pub async fn status(call: Call) -> CallResult {
    let runner = GitRunner::new(&call, call.query.text("dir")).await?;
    let args = [
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "--untracked-files=all",
        "--renames",
        WITHOUT_SUBMODULES,
    ];
    let output = runner.succeed(GitCommand::local(&args)).await?;
    Ok(ok(&parse_git_status(&output.stdout, output.truncated)))
}

/// Differences of the working tree to what is staged, or of what is staged to the last commit.
pub async fn diff(call: Call) -> CallResult {
    let runner = GitRunner::new(&call, call.query.text("dir")).await?;
    let mut args =
        vec!["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/"];
    args.push(WITHOUT_SUBMODULES);
    if call.query.flag("staged", false)? {
        args.push("--cached");
    }
    args.push("--");
    args.extend(call.query.text("path"));
    // Without a repository `git diff` compares two paths.
    runner.succeed(GitCommand::local(&["rev-parse", "--is-inside-work-tree"])).await?;
    let output = runner.succeed(GitCommand::local(&args)).await?;
    let diff = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(ok(&GitDiff { diff, truncated: output.truncated }))
}

pub async fn log(call: Call) -> CallResult {
    let runner = GitRunner::new(&call, call.query.text("dir")).await?;
    let limit = call.query.number("limit")?.unwrap_or(LOG_DEFAULT);
    let (count, format) = (format!("--max-count={limit}"), format!("--format={GIT_LOG_FORMAT}"));
    runner.succeed(GitCommand::local(&["rev-parse", "--git-dir"])).await?;
    if runner.line(&["rev-parse", "--verify", "--quiet", "HEAD"]).await?.is_none() {
        return Ok(ok(&GitLog { commits: Vec::new(), truncated: false }));
    }
    let args = ["log", "-z", &count, &format, "--no-color", "--no-notes", "--no-mailmap", "--encoding=UTF-8"];
    let output = runner.succeed(GitCommand::local(&args)).await?;
    Ok(ok(&GitLog { commits: parse_git_log(&output.stdout), truncated: output.truncated }))
}
