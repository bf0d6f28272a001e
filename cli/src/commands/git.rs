//! `slipway git`: git repositories in sandboxes.

use crate::{
    client::ApiRequest,
    context::Context,
    failure::Failure,
    limits,
    table::Table,
    text::{plain, wire_name},
};
use clap::{Args, Subcommand};
use protocol::{
    api::{
        GIT_LOG_MAX, GitAuth, GitAuthor, GitBranchCreate, GitBranchView, GitCommitCreate, GitCommitView,
        GitDiff, GitFetch, GitFetched, GitFile, GitFileState, GitLog, GitPush, GitPushed, GitStatus,
        SecretName,
    },
    sanitize::LineSanitizer,
};

/// Characters of a commit's hash that are shown.
const SHORT_HASH_CHARS: usize = 10;

#[derive(Debug, Args)]
pub struct GitArgs {
    #[command(subcommand)]
    command: GitCommand,
}

#[derive(Debug, Args)]
struct Repository {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// A directory of the repository; default: the app directory
    #[arg(long, value_name = "DIR")]
    dir: Option<String>,
}

const NETWORK_HELP: &str = "\
The credential is a secret of the tenant of the sandbox: `git.HOST`, or another one named `git-LABEL.HOST`. Its value is a
token, or USER:PASSWORD. For SSH servers it is `ssh.HOST` with a private key, and the known hosts of the server behind it.
hostd uses it on the wire; it never enters the sandbox.

Examples:
  slipway secret set git.github.com
  (cat deploy_key; ssh-keyscan git.example.com) | slipway secret set ssh.git.example.com
  slipway git push my-app
  slipway git push my-app --remote https://github.com/team/app.git --branch fix --secret git-deploy.github.com";

#[derive(Debug, Subcommand)]
enum GitCommand {
    /// Show the branch and the changed files
    Status {
        #[command(flatten)]
        repository: Repository,
    },
    /// Show what is changed and not staged, or what is staged
    Diff {
        #[command(flatten)]
        repository: Repository,
        /// Only this file or directory
        #[arg(value_name = "PATH")]
        path: Option<String>,
        /// Show staged changes
        #[arg(long)]
        staged: bool,
    },
    /// Show the newest commits of the branch that is checked out
    Log {
        #[command(flatten)]
        repository: Repository,
        /// Commits to show
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=GIT_LOG_MAX))]
        limit: u64,
    },
    /// Commit what is staged, some paths, or all changes
    Commit {
        #[command(flatten)]
        repository: Repository,
        /// Message of the commit
        #[arg(long, short)]
        message: String,
        /// Commit all changes, new files included
        #[arg(long, short, conflicts_with = "paths")]
        all: bool,
        /// Author; default: the identity in the configuration of git
        #[arg(long, value_name = "NAME <EMAIL>", value_parser = author)]
        author: Option<GitAuthor>,
        /// Commit these paths and nothing else
        #[arg(value_name = "PATH")]
        paths: Vec<String>,
    },
    /// Create a branch, or switch to one
    Branch {
        #[command(flatten)]
        repository: Repository,
        /// Name of the branch
        #[arg(value_name = "NAME")]
        name: String,
        /// Branch, tag or commit to begin at; default: the commit that is checked out
        #[arg(long, value_name = "REVISION")]
        from: Option<String>,
        /// Check the branch out; without --from it may exist
        #[arg(long)]
        switch: bool,
    },
    /// Push a branch, with a credential that stays outside the sandbox
    #[command(after_help = NETWORK_HELP)]
    Push {
        #[command(flatten)]
        repository: Repository,
        /// Address of a repository, or name of a remote; default: origin
        #[arg(long, value_name = "REMOTE")]
        remote: Option<String>,
        /// Branch to push; default: the one that is checked out
        #[arg(long, value_name = "NAME")]
        branch: Option<String>,
        /// Secret with the credential; default: ssh.HOST or git.HOST
        #[arg(long, value_name = "SECRET", value_parser = secret)]
        secret: Option<SecretName>,
        /// Force push: overwrite commits on the server
        #[arg(long)]
        force: bool,
    },
    /// Fetch the branches of a remote, with a credential that stays outside the sandbox
    #[command(after_help = NETWORK_HELP)]
    Fetch {
        #[command(flatten)]
        repository: Repository,
        /// Name of a remote of the repository; default: origin
        #[arg(long, value_name = "NAME")]
        remote: Option<String>,
        /// Secret with the credential; default: ssh.HOST or git.HOST
        #[arg(long, value_name = "SECRET", value_parser = secret)]
        secret: Option<SecretName>,
    },
}

fn secret(text: &str) -> Result<SecretName, String> {
    SecretName::parse(text).map_err(|error| error.to_string())
}

fn author(text: &str) -> Result<GitAuthor, String> {
    let parts = text.strip_suffix('>').and_then(|text| text.split_once('<'));
    let (name, email) = parts.ok_or("must be a name and an email address: Ann <ann@example.com>")?;
    Ok(GitAuthor { name: name.trim().to_owned(), email: email.trim().to_owned() })
}

pub async fn run(context: &Context, args: GitArgs) -> Result<(), Failure> {
    match args.command {
        GitCommand::Status { repository } => {
            let request = get(context, repository, "status").await?;
            context.show(request, |status| Ok(show_status(context, &status))).await
        }
        GitCommand::Diff { repository, path, staged } => {
            let request = get(context, repository, "diff").await?.query_if("path", path);
            let request = if staged { request.query("staged", true) } else { request };
            context.show(request, |diff: GitDiff| Ok(show_diff(&diff))).await
        }
        GitCommand::Log { repository, limit } => {
            let request = get(context, repository, "log").await?.query("limit", limit);
            context.show(request, |log| Ok(show_log(context, &log))).await
        }
        GitCommand::Commit { repository, message, all, author, paths } => {
            let (path, dir) = place(context, repository, "commit").await?;
            let create = GitCommitCreate { message, paths, all, author, dir };
            let said =
                |made: GitCommitView| Ok(format!("{} {}\n", short(&made.commit), plain(&made.subject)));
            context.show(ApiRequest::post(path).json(&create), said).await
        }
        GitCommand::Branch { repository, name, from, switch } => {
            let (path, dir) = place(context, repository, "branch").await?;
            let create = GitBranchCreate { name, from, switch, dir };
            let said = |made: GitBranchView| {
                let head = made.head.as_deref().map(short).unwrap_or_default();
                let done = if made.switched { "checked out" } else { "created" };
                Ok(format!("{} {done} {head}\n", plain(&made.name)))
            };
            context.show(ApiRequest::post(path).json(&create), said).await
        }
        GitCommand::Push { repository, remote, branch, secret, force } => {
            let (path, dir) = place(context, repository, "push").await?;
            let push = GitPush { remote, branch, auth: secret.map(|secret| GitAuth { secret }), force, dir };
            let request = ApiRequest::post(path).json(&push).timeout(limits::GIT_NETWORK_TIMEOUT);
            let said = |pushed: GitPushed| {
                let (branch, remote) = (plain(&pushed.branch), plain(&pushed.remote));
                Ok(format!("{branch} {} pushed to {remote}\n", short(&pushed.commit)))
            };
            context.show(request, said).await
        }
        GitCommand::Fetch { repository, remote, secret } => {
            let (path, dir) = place(context, repository, "fetch").await?;
            let fetch = GitFetch { remote, auth: secret.map(|secret| GitAuth { secret }), dir };
            let request = ApiRequest::post(path).json(&fetch).timeout(limits::GIT_NETWORK_TIMEOUT);
            context.show(request, |fetched| Ok(show_fetched(context, &fetched))).await
        }
    }
}

async fn get(context: &Context, repository: Repository, verb: &str) -> Result<ApiRequest, Failure> {
    let (path, dir) = place(context, repository, verb).await?;
    Ok(ApiRequest::get(path).query_if("dir", dir))
}

async fn place(
    context: &Context,
    repository: Repository,
    verb: &str,
) -> Result<(String, Option<String>), Failure> {
    let id = context.sandbox(&repository.sandbox).await?;
    Ok((format!("/v1/sandboxes/{id}/git/{verb}"), repository.dir))
}

fn short(hash: &str) -> String {
    plain(hash).chars().take(SHORT_HASH_CHARS).collect()
}

fn show_status(context: &Context, status: &GitStatus) -> String {
    let branch = status.branch.as_deref().map_or_else(|| "no branch".to_owned(), plain);
    let head = status.head.as_deref().map_or_else(|| "no commit".to_owned(), short);
    let mut text = format!("{branch} {head}");
    if let Some(upstream) = &status.upstream {
        let (ahead, behind) = (status.ahead.unwrap_or(0), status.behind.unwrap_or(0));
        text.push_str(&format!(" ({}: {ahead} ahead, {behind} behind)", plain(upstream)));
    }
    text.push('\n');
    if status.files.is_empty() {
        return text;
    }
    let mut table = Table::new(["STAGED", "NOT STAGED", "PATH"]);
    for GitFile { path, staged, unstaged, original_path } in &status.files {
        let named = |state: &GitFileState| match state {
            GitFileState::Unmodified => String::new(),
            GitFileState::Modified
            | GitFileState::TypeChanged
            | GitFileState::Added
            | GitFileState::Deleted
            | GitFileState::Renamed
            | GitFileState::Copied
            | GitFileState::Unmerged
            | GitFileState::Untracked => wire_name(state),
        };
        let path = match original_path {
            Some(original) => format!("{} (was {})", plain(path), plain(original)),
            None => plain(path),
        };
        table.row([named(staged).into(), named(unstaged).into(), path.into()]);
    }
    text.push_str(&table.render(context.output));
    if status.truncated {
        text.push_str("file list truncated\n");
    }
    text
}

fn show_diff(diff: &GitDiff) -> String {
    let line = |line: &str| {
        let mut sanitizer = LineSanitizer::default();
        sanitizer.push(line).replace('\n', " ") + "\n"
    };
    let mut text: String = diff.diff.lines().map(line).collect();
    if diff.truncated {
        text.push_str("diff truncated; pass a path\n");
    }
    text
}

fn show_log(context: &Context, log: &GitLog) -> String {
    let mut table = Table::new(["COMMIT", "TIME", "AUTHOR", "SUBJECT"]);
    for commit in &log.commits {
        table.row([
            short(&commit.commit).into(),
            commit.authored_at.clone().into(),
            plain(&commit.author.name).into(),
            plain(&commit.subject).into(),
        ]);
    }
    table.render(context.output)
}

fn show_fetched(context: &Context, fetched: &GitFetched) -> String {
    let mut table = Table::new(["BRANCH", "COMMIT"]);
    for branch in &fetched.branches {
        table.row([plain(&branch.name).into(), short(&branch.commit).into()]);
    }
    let mut text = table.render(context.output);
    if fetched.truncated {
        text.push_str("branch list truncated\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_is_a_name_and_an_address() {
        let ann = GitAuthor { name: "Ann B".to_owned(), email: "ann@example".to_owned() };
        assert_eq!(author("Ann B <ann@example>"), Ok(ann));
        for bad in ["Ann", "Ann ann@example", "ann@example>"] {
            assert!(author(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_diff_of_a_sandbox_does_not_move_the_cursor() {
        let diff = GitDiff { diff: "+a\u{1b}[2J\n-b\n".to_owned(), truncated: true };
        assert_eq!(show_diff(&diff), "+a\n-b\ndiff truncated; pass a path\n");
    }
}
