//! Creates branches and switches to them.

use super::{
    super::{
        call::Call,
        error::{CallError, CallResult},
        views,
    },
    problem::failed,
    runner::{GitCommand, GitRunner},
};
use hostd_core::{BranchName, Revision};
use hyper::StatusCode;
use protocol::api::{GitBranchCreate, GitBranchView, GitReason};

pub async fn create(call: Call) -> CallResult {
    let create: GitBranchCreate = call.json()?;
    let invalid = |field: &'static str| {
        move |error: hostd_core::InvalidRef| CallError::invalid(field, error.to_string())
    };
    let name = BranchName::parse(&create.name).map_err(invalid("name"))?;
    let from = create.from.as_deref().map(Revision::parse).transpose().map_err(invalid("from"))?;
    let runner = GitRunner::new(&call, create.dir.as_deref()).await?;
    runner.succeed(GitCommand::local(&["rev-parse", "--git-dir"])).await?;
    let full = name.full_ref();
    let exists = runner.line(&["rev-parse", "--verify", "--quiet", &full]).await?.is_some();
    if exists && (!create.switch || from.is_some()) {
        let message =
            format!("there is a branch {name} already; pass `switch` without `from` to check it out");
        return Err(failed(GitReason::BranchExists, message));
    }
    let head = runner.line(&["rev-parse", "--verify", "--quiet", "HEAD"]).await?;
    if head.is_none() && !create.switch && from.is_none() {
        return Err(failed(GitReason::NoCommits, "there is no commit yet that a branch could begin at"));
    }
    let from = from.as_ref().map(Revision::as_str);
    let mut args = match (create.switch, exists) {
        (true, true) => vec!["switch", "--quiet", "--no-guess", name.as_str()],
        (true, false) => vec!["switch", "--quiet", "--no-track", "--create", name.as_str()],
        (false, _) => vec!["branch", "--quiet", "--no-track", name.as_str()],
    };
    args.extend(from);
    runner.succeed(GitCommand::local(&args)).await?;
    let head = runner.line(&["rev-parse", "--verify", "--quiet", &full]).await?;
    let status = if exists { StatusCode::OK } else { StatusCode::CREATED };
    Ok(views::json(status, &GitBranchView { name: name.to_string(), head, switched: create.switch }))
}
