//! Git repositories in a sandbox: what is changed, commits, branches, and pushes with a credential that stays in hostd.

use super::SecretName;
use serde::{Deserialize, Serialize};

/// Longest message of a commit, in bytes.
pub const GIT_MESSAGE_MAX_BYTES: usize = 64 << 10;
/// Most paths of one commit.
pub const GIT_PATHS_MAX: usize = 1_000;
/// Longest path in a request, in bytes.
pub const GIT_PATH_MAX_BYTES: usize = 4_096;
/// Longest name or email address of an author, in bytes.
pub const GIT_AUTHOR_MAX_BYTES: usize = 256;
/// Most commits of one log.
pub const GIT_LOG_MAX: u64 = 200;

/// Why a git operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum GitReason {
    /// The directory is in no repository.
    NotARepository,
    /// The branch has no commit yet.
    NoCommits,
    /// Nothing is staged, or nothing has changed.
    NothingToCommit,
    /// The commit has no author, and the configuration of git names none.
    NoAuthor,
    /// No branch is checked out, and the request names none.
    NoBranch,
    BranchExists,
    /// The request or the repository names no remote, or one with an address that is not accepted.
    InvalidRemote,
    /// The server refused the credential, or the secret cannot be used.
    AuthFailed,
    /// There is no such repository, or the credential does not see it.
    RemoteNotFound,
    /// The server has commits that the branch does not have: fetch and merge them first.
    NonFastForward,
    /// The server refused the change, as a protected branch does.
    RemoteRejected,
    /// The rules of the sandbox or of the host deny the server, or it redirects to another one.
    RemoteDenied,
    RemoteUnreachable,
    /// The sandbox has no git.
    NoGit,
    TimedOut,
    /// git refused; the message has what it said.
    Refused,
}

/// A state of a file, in the index or in the working tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum GitFileState {
    Unmodified,
    Modified,
    TypeChanged,
    Added,
    Deleted,
    Renamed,
    Copied,
    Unmerged,
    Untracked,
}

/// A file that differs from the last commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GitFile {
    /// Relative to the top of the repository.
    pub path: String,
    /// State in the index.
    pub staged: GitFileState,
    /// State in the working tree.
    pub unstaged: GitFileState,
    /// The former path of a file that was renamed or copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_path: Option<String>,
}

/// The state of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GitStatus {
    /// Absent when no branch is checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that is checked out; absent before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The branch of a remote that the branch follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Commits that the upstream does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
    /// Commits that only the upstream has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
    pub files: Vec<GitFile>,
    /// Whether there are more files.
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GitDiff {
    /// The unified diff. Bytes that are not UTF-8 are replaced.
    pub diff: String,
    /// Whether the diff is longer.
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GitCommitView {
    pub commit: String,
    pub parents: Vec<String>,
    pub author: GitAuthor,
    /// When it was written, in RFC 3339.
    pub authored_at: String,
    /// The first paragraph of the message.
    pub subject: String,
    /// The rest of the message.
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GitLog {
    /// The newest is the first.
    pub commits: Vec<GitCommitView>,
    /// Whether commits of this page are missing because their messages are too long.
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GitAuthor {
    pub name: String,
    pub email: String,
}

/// A commit to make.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GitCommitCreate {
    pub message: String,
    /// Commits what changed at these paths and nothing else; relative to `dir`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Commits all changes, new files included. Without it and `paths` the commit has what is staged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// Default: the identity in the configuration of git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<GitAuthor>,
    /// A directory of the repository; default the app directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

/// A branch to create or to switch to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GitBranchCreate {
    pub name: String,
    /// A branch, tag or commit to begin at; default the commit that is checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Checks the branch out. Without `from` it may exist already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub switch: bool,
    /// A directory of the repository; default the app directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GitBranchView {
    pub name: String,
    /// The commit of the branch; absent before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Whether the branch is checked out.
    pub switched: bool,
}

/// The credential for a server. It is added by hostd on the wire, and never enters the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GitAuth {
    /// The name of a secret of the tenant: `git.HOST` or `git-LABEL.HOST`, whose value is a token or `user:password`, or
    /// `ssh.HOST` or `ssh-LABEL.HOST`, whose value is a private key.
    pub secret: SecretName,
}

/// A push of one branch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GitPush {
    /// The address of a repository, or the name of a remote of this one; default `origin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Default: the branch that is checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Default: the secret `ssh.HOST` or `git.HOST` of the tenant, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<GitAuth>,
    /// Replaces commits of the server that the branch does not have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// A directory of the repository; default the app directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GitPushed {
    /// The address of the repository that was pushed to.
    pub remote: String,
    pub branch: String,
    pub commit: String,
}

/// A fetch of all branches of a remote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GitFetch {
    /// The name of a remote of the repository; default `origin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Default: the secret `ssh.HOST` or `git.HOST` of the tenant, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<GitAuth>,
    /// A directory of the repository; default the app directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GitFetched {
    /// The address of the repository that was fetched from.
    pub remote: String,
    /// The branches of the remote, as in `origin/main`, with their commits.
    pub branches: Vec<GitRemoteBranch>,
    /// Whether branches are missing here because there are too many; all of them were fetched.
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GitRemoteBranch {
    pub name: String,
    pub commit: String,
}
