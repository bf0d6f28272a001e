//! The routes of git, for the table of all routes.

use super::{
    super::{
        param::{Param, ParamKind},
        route::{
            RequiredAccess::{Read, Write},
            Route,
        },
        route_params::WAKE,
    },
    branch, commit, inspect, network,
};
use hyper::Method;
use protocol::api::{
    GIT_LOG_MAX, GIT_PATH_MAX_BYTES, GitBranchCreate, GitBranchView, GitCommitCreate, GitCommitView, GitDiff,
    GitFetch, GitFetched, GitLog, GitPush, GitPushed, GitStatus,
};

const PATH_KIND: ParamKind = ParamKind::Text { most_chars: GIT_PATH_MAX_BYTES };
const DIR: &[Param] = &[Param {
    name: "dir",
    about: "A directory of the repository, absolute or relative to the app directory, which is the default",
    kind: PATH_KIND,
}];
const DIFF: &[Param] = &[
    Param { name: "path", about: "Only this file or directory, relative to `dir`", kind: PATH_KIND },
    Param { name: "staged", about: "Show staged changes", kind: ParamKind::Flag },
];
const LOG: &[Param] = &[Param {
    name: "limit",
    about: "Commits to return; default 20",
    kind: ParamKind::Number { least: 1, most: GIT_LOG_MAX },
}];

pub fn all() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/git/status", Read, inspect::status)
            .operation("getGitStatus", "Branch, upstream and changed files of a repository in a sandbox")
            .query(DIR)
            .query(WAKE)
            .returns::<GitStatus>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/git/diff", Read, inspect::diff)
            .operation("getGitDiff", "The unified diff of what is not staged, or with `staged` of what is")
            .query(DIR)
            .query(DIFF)
            .query(WAKE)
            .returns::<GitDiff>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/git/log", Read, inspect::log)
            .operation("getGitLog", "The commits of the branch that is checked out, newest first")
            .query(DIR)
            .query(LOG)
            .query(WAKE)
            .returns::<GitLog>(200),
        Route::new(Method::POST, "/v1/sandboxes/{id}/git/commit", Write, commit::create)
            .operation("createGitCommit", "Commit what is staged, paths, or all changes; no hook runs")
            .query(WAKE)
            .json_body::<GitCommitCreate>()
            .returns::<GitCommitView>(201),
        Route::new(Method::POST, "/v1/sandboxes/{id}/git/branch", Write, branch::create)
            .operation("createGitBranch", "Create a branch, or switch to one")
            .query(WAKE)
            .json_body::<GitBranchCreate>()
            .returns::<GitBranchView>(200)
            .returns::<GitBranchView>(201),
        Route::new(Method::POST, "/v1/sandboxes/{id}/git/push", Write, network::push)
            .operation("pushGitBranch", "Push a branch to its server, with a credential that stays outside the sandbox. No configuration of the repository is used, other than the address of the remote")
            .query(WAKE)
            .json_body::<GitPush>()
            .returns::<GitPushed>(200),
        Route::new(Method::POST, "/v1/sandboxes/{id}/git/fetch", Write, network::fetch)
            .operation("fetchGitBranches", "Fetch the branches of a remote, with a credential that stays outside the sandbox")
            .query(WAKE)
            .json_body::<GitFetch>()
            .returns::<GitFetched>(200),
    ]
}
