//! Makes a commit.

use super::{
    super::{
        call::Call,
        error::{CallError, CallResult},
        views,
    },
    problem::{explain, failed},
    runner::{GitCommand, GitRunner},
};
use hostd_core::{GIT_LOG_FORMAT, parse_git_log};
use hyper::StatusCode;
use protocol::api::{
    GIT_AUTHOR_MAX_BYTES, GIT_MESSAGE_MAX_BYTES, GIT_PATH_MAX_BYTES, GIT_PATHS_MAX, GitAuthor,
    GitCommitCreate, GitReason,
};

pub async fn create(call: Call) -> CallResult {
    let create: GitCommitCreate = call.json()?;
    check(&create)?;
    let runner = GitRunner::new(&call, create.dir.as_deref()).await?;
    let paths: Vec<&str> = create.paths.iter().map(String::as_str).collect();
    if create.all || !paths.is_empty() {
        let add =
            if create.all { vec!["add", "--all", "--", ":/"] } else { with_paths(&["add", "--all"], &paths) };
        // `:/` is the top of the repository, which a literal path could not name.
        let mut command = GitCommand::local(&add);
        if create.all {
            command.argv.retain(|arg| arg != "--literal-pathspecs");
        }
        runner.succeed(command).await?;
    }
    let mut args =
        vec!["commit", "--quiet", "--no-verify", "--no-gpg-sign", "--cleanup=whitespace", "--file=-"];
    if !paths.is_empty() {
        args.push("--only");
        args = with_paths(&args, &paths);
    }
    let mut command = GitCommand::local(&args);
    command.stdin = Some(create.message.clone());
    if let Some(GitAuthor { name, email }) = &create.author {
        for role in ["AUTHOR", "COMMITTER"] {
            command = command
                .with_env(&format!("GIT_{role}_NAME"), name)
                .with_env(&format!("GIT_{role}_EMAIL"), email);
        }
    }
    let output = runner.run(command).await?;
    if output.code != 0 {
        let said = String::from_utf8_lossy(&output.stdout);
        let nothing = ["nothing to commit", "nothing added to commit", "no changes added to commit"];
        if output.code == 1 && nothing.iter().any(|text| said.contains(text)) {
            return Err(failed(
                GitReason::NothingToCommit,
                "there is nothing to commit: pass `all` or `paths`",
            ));
        }
        return Err(explain(&output));
    }
    let format = format!("--format={GIT_LOG_FORMAT}");
    let args = ["log", "-z", "--max-count=1", &format, "--no-color", "--no-notes", "--no-mailmap"];
    let output = runner.succeed(GitCommand::local(&args)).await?;
    let made = parse_git_log(&output.stdout).into_iter().next();
    let made = made.ok_or_else(|| failed(GitReason::Refused, "git did not show the commit it made"))?;
    Ok(views::json(StatusCode::CREATED, &made))
}

fn with_paths<'a>(args: &[&'a str], paths: &[&'a str]) -> Vec<&'a str> {
    args.iter().chain(&["--"]).chain(paths).copied().collect()
}

fn check(create: &GitCommitCreate) -> Result<(), CallError> {
    let GitCommitCreate { message, paths, all, author, dir: _ } = create;
    if message.trim().is_empty() || message.len() > GIT_MESSAGE_MAX_BYTES || message.contains('\0') {
        let why = format!("must be a text of at most {GIT_MESSAGE_MAX_BYTES} bytes");
        return Err(CallError::invalid("message", why));
    }
    let is_path =
        |path: &String| !path.is_empty() && path.len() <= GIT_PATH_MAX_BYTES && !path.contains('\0');
    if paths.len() > GIT_PATHS_MAX || !paths.iter().all(is_path) {
        let why = format!("must be at most {GIT_PATHS_MAX} paths of 1 to {GIT_PATH_MAX_BYTES} bytes");
        return Err(CallError::invalid("paths", why));
    }
    if *all && !paths.is_empty() {
        return Err(CallError::invalid("paths", "pass either `all` or `paths`"));
    }
    let is_plain = |text: &str| {
        let forbidden = |c: char| c.is_control() || c == '<' || c == '>';
        !text.trim().is_empty() && text.len() <= GIT_AUTHOR_MAX_BYTES && !text.contains(forbidden)
    };
    match author {
        Some(author) if !is_plain(&author.name) || !is_plain(&author.email) => {
            let why = format!(
                "must have a name and an email address of at most {GIT_AUTHOR_MAX_BYTES} bytes, without < and >"
            );
            Err(CallError::invalid("author", why))
        }
        Some(_) | None => Ok(()),
    }
}
