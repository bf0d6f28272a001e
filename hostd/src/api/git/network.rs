//! Push and fetch. git runs in a fresh repository that borrows the objects of the sandbox's one: none of its
//! configuration is read for the part that speaks to a server. The URL is of the gateway; the credential is not in the
//! sandbox.

use super::{
    super::{
        call::Call,
        error::{CallError, CallResult},
        views::ok,
    },
    problem::{explain, explain_gateway, failed},
    remote::{self, NamedRemote},
    runner::{GitCommand, GitOutput, GitRunner, NETWORK_MAX_MS},
};
use crate::git::{GitAccess, GitGrant, GrantRequest};
use hostd_core::{BranchName, GIT_FSCK_OPTIONS, GIT_ISOLATION};
use protocol::{
    api::{GitAuth, GitFetch, GitFetched, GitPush, GitPushed, GitReason, GitRemoteBranch, SecretRef},
    sanitize::one_line,
};
use std::time::Duration;

/// Arguments: the repository, its object format, the URL. Makes the fresh repository `$fresh`, which has no configuration
/// but its own, and shares the history where it begins.
const PREPARE: &str = r#"
umask 077
own=$1 format=$2 url=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' TERM INT
fresh=$dir/fresh
git init --quiet --bare --template= --object-format="$format" "$fresh"
if [ -f "$own/shallow" ]; then cat "$own/shallow" > "$fresh/shallow"; fi
fresh_git() { git --git-dir="$fresh" -c http.proxy= -c http.followRedirects=false -c credential.helper= -c gc.auto=0 "$@"; }
"#;
/// Further arguments: the refspec.
const PUSH: &str = r#"
printf '%s\n' "$own/objects" > "$fresh/objects/info/alternates"
fresh_git push --porcelain --no-verify --recurse-submodules=no -- "$url" "$4"
"#;
/// Further arguments: the name of the remote. What the repository has is not fetched again. Branches that the server has
/// no more are deleted first, and apart: one named `a` is in the way of one named `a/b`.
const FETCH: &str = r#"
export GIT_OBJECT_DIRECTORY="$own/objects"
own_git() { git --git-dir="$own" -c core.hooksPath=/dev/null -c core.fsmonitor=false "$@"; }
own_git for-each-ref --format='create %(refname) %(objectname)' refs/heads refs/remotes | fresh_git update-ref --stdin
fresh_git $SLIPWAY_FSCK fetch --quiet --no-tags --no-write-fetch-head --recurse-submodules=no -- "$url" '+refs/heads/*:refs/slipway/*' >&2
{
  own_git for-each-ref --format='%(if)%(symref)%(then)%(else)delete %(refname)%(end)' "refs/remotes/$4"
  for twice in 1 2; do fresh_git for-each-ref --format="delete refs/remotes/$4/%(refname:lstrip=2)" refs/slipway; done
} | sort | uniq -u | sed -n '/^delete /p' | own_git update-ref --stdin
fresh_git for-each-ref --format="update refs/remotes/$4/%(refname:lstrip=2) %(objectname)" refs/slipway | own_git update-ref --stdin
fresh_git for-each-ref --format='%(refname:lstrip=2)%00%(objectname)%00' refs/slipway
"#;

pub async fn push(call: Call) -> CallResult {
    let push: GitPush = call.json()?;
    let named = |error: hostd_core::InvalidRef| CallError::invalid("branch", error.to_string());
    let branch = push.branch.as_deref().map(BranchName::parse).transpose().map_err(named)?;
    let runner = GitRunner::new(&call, push.dir.as_deref()).await?;
    let own = OwnRepository::find(&runner).await?;
    let branch = match branch {
        Some(branch) => branch,
        None => current_branch(&runner).await?,
    };
    let revision = format!("{}^{{commit}}", branch.full_ref());
    let no_commit =
        || failed(GitReason::NoCommits, format!("the branch {branch} has no commit; commit first"));
    let commit = runner.line(&["rev-parse", "--verify", "--quiet", &revision]).await?;
    let commit = commit.filter(|hash| is_hash(hash)).ok_or_else(no_commit)?;
    let to = remote::resolve(&runner, push.remote.as_deref()).await?;
    let grant = grant(&call, &runner, &to, push.auth, GitAccess::Push { branch: branch.clone() }).await?;
    let force = if push.force { "+" } else { "" };
    let refspec = format!("{force}{commit}:{}", branch.full_ref());
    let args = [own.path.as_str(), &own.format, &grant.url_inside, &refspec];
    let output = runner.run(GitCommand::network(&format!("{GIT_ISOLATION}{PREPARE}{PUSH}"), &args)).await?;
    if output.code != 0 {
        return Err(explain_push(&grant, &output, &branch));
    }
    check_pushed(&grant, &commit)?;
    if let Some(name) = &to.name {
        // The repository knows now what the server has. Without it only the status would be older.
        let tracking = format!("refs/remotes/{name}/{branch}");
        runner.run(GitCommand::local(&["update-ref", &tracking, &commit])).await?;
    }
    Ok(ok(&GitPushed { remote: grant.remote().to_string(), branch: branch.to_string(), commit }))
}

pub async fn fetch(call: Call) -> CallResult {
    let fetch: GitFetch = call.json()?;
    let runner = GitRunner::new(&call, fetch.dir.as_deref()).await?;
    let name = fetch.remote.as_deref().unwrap_or(remote::DEFAULT_REMOTE);
    if !remote::is_remote_name(name) {
        return Err(CallError::invalid("remote", "must be the name of a remote of the repository"));
    }
    let own = OwnRepository::find(&runner).await?;
    let from = remote::resolve(&runner, Some(name)).await?;
    let grant = grant(&call, &runner, &from, fetch.auth, GitAccess::Fetch).await?;
    let args = [own.path.as_str(), &own.format, &grant.url_inside, name];
    let command = GitCommand::network(&format!("{GIT_ISOLATION}{PREPARE}{FETCH}"), &args);
    let output = runner.run(command.with_env("SLIPWAY_FSCK", GIT_FSCK_OPTIONS)).await?;
    if let (true, Some(failure)) = (output.code != 0, grant.failure()) {
        return Err(explain_gateway(&failure));
    }
    if output.code != 0 {
        return Err(explain(&output));
    }
    let branches = fetched_branches(name, &output.stdout);
    Ok(ok(&GitFetched { remote: grant.remote().to_string(), branches, truncated: output.truncated }))
}

/// The repository of the sandbox.
struct OwnRepository {
    /// The directory with its objects and refs.
    path: String,
    /// The kind of its hashes.
    format: String,
}

impl OwnRepository {
    async fn find(runner: &GitRunner<'_>) -> Result<Self, CallError> {
        let args = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let output = runner.succeed(GitCommand::local(&args)).await?;
        let path = String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned();
        let format = runner.succeed(GitCommand::local(&["rev-parse", "--show-object-format"])).await?;
        let format = String::from_utf8_lossy(&format.stdout).trim().to_owned();
        if !path.starts_with('/') || !matches!(format.as_str(), "sha1" | "sha256") {
            return Err(failed(GitReason::Refused, "git does not say where the repository is"));
        }
        Ok(Self { path, format })
    }
}

async fn current_branch(runner: &GitRunner<'_>) -> Result<BranchName, CallError> {
    let head = runner.line(&["symbolic-ref", "--quiet", "HEAD"]).await?;
    head.and_then(|head| BranchName::of_full_ref(&head))
        .ok_or_else(|| failed(GitReason::NoBranch, "no branch is checked out: pass `branch`"))
}

async fn grant(
    call: &Call,
    runner: &GitRunner<'_>,
    to: &NamedRemote,
    auth: Option<GitAuth>,
    access: GitAccess,
) -> Result<GitGrant, CallError> {
    let auth = auth.map(|auth| SecretRef::new(auth.secret));
    let within = Duration::from_millis(NETWORK_MAX_MS);
    let request = GrantRequest {
        sandbox: runner.sandbox.id,
        tenant: &runner.sandbox.owner.tenant,
        remote: &to.remote,
        auth,
        access,
        within,
    };
    Ok(call.api.git.grant(request).await?)
}

/// Checks that the server has the commit, by what passed the gateway: git in the sandbox may be any program.
fn check_pushed(grant: &GitGrant, commit: &str) -> Result<(), CallError> {
    // Other code of the sandbox may have had requests of its own refused, which does not undo the push.
    if grant.is_on_server(commit) {
        return Ok(());
    }
    if let Some(failure) = grant.failure() {
        return Err(explain_gateway(&failure));
    }
    let message = format!("git in the sandbox reported a push of {commit} that the server did not get");
    Err(failed(GitReason::Refused, message))
}

/// Explains a push that failed: at the gateway, or by what the server said about the branch.
fn explain_push(grant: &GitGrant, output: &GitOutput, branch: &BranchName) -> CallError {
    if let Some(failure) = grant.failure() {
        return explain_gateway(&failure);
    }
    let said = String::from_utf8_lossy(&output.stdout);
    match rejection(&said) {
        Some(("[rejected]", _)) => failed(
            GitReason::NonFastForward,
            format!(
                "the server has commits of {branch} that the sandbox does not have: fetch and merge them first"
            ),
        ),
        Some((_, why)) => failed(
            GitReason::RemoteRejected,
            format!("the server rejected the push of {branch}: {}", one_line(why, 200)),
        ),
        None => explain(output),
    }
}

/// Finds the line of `git push --porcelain` about a branch that was not changed: `!`, the refs, the kind and reason.
fn rejection(said: &str) -> Option<(&str, &str)> {
    let line = said.lines().find_map(|line| line.strip_prefix("!\t"))?;
    let reason = line.split_once('\t')?.1;
    let end = reason.find(']')? + 1;
    Some((&reason[..end], reason[end..].trim()))
}

fn fetched_branches(remote: &str, output: &[u8]) -> Vec<GitRemoteBranch> {
    let text = String::from_utf8_lossy(output);
    let fields: Vec<&str> = text.split('\0').map(|field| field.trim_start_matches('\n')).collect();
    let branch =
        |pair: &[&str]| GitRemoteBranch { name: format!("{remote}/{}", pair[0]), commit: pair[1].to_owned() };
    fields.chunks_exact(2).filter(|pair| is_hash(pair[1])).map(branch).collect()
}

fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_is_found_in_what_git_says() {
        let rejected = "To http://x\n!\tabc:refs/heads/main\t[rejected] (fetch first)\nDone\n";
        assert_eq!(rejection(rejected), Some(("[rejected]", "(fetch first)")));
        let hook = "To x\n!\tabc:refs/heads/main\t[remote rejected] (pre-receive hook declined)\n";
        assert_eq!(rejection(hook), Some(("[remote rejected]", "(pre-receive hook declined)")));
        for other in ["", "To x\n*\tabc:refs/heads/main\t[new branch]\n", "!\tx", "!\tx\ty"] {
            assert_eq!(rejection(other), None, "{other:?}");
        }
    }

    #[test]
    fn fetched_branches_have_the_name_of_their_remote() {
        let hash = "1".repeat(40);
        let branches =
            fetched_branches("origin", format!("main\0{hash}\0\na/b\0{hash}\0\nbad\0x\0\n").as_bytes());
        let names: Vec<&str> = branches.iter().map(|branch| branch.name.as_str()).collect();
        assert_eq!(names, ["origin/main", "origin/a/b"]);
    }
}
