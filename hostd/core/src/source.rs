//! Repositories that a new sandbox is provisioned with: checked addresses, and the command that clones one inside the
//! sandbox. git there speaks to hostd alone, which has the credential; it uses no configuration but what is given here.

use crate::{GIT_ISOLATION, GitRemote, Revision, blueprint::require, limits};
use protocol::{
    EnvMap,
    api::{ApiError, ProblemCode, SandboxSpec, SecretName, SourceAuth, SourceSpec},
};
use serde::{Deserialize, Serialize};

const HOME: &str = "/home/sandbox";
const APP_DIR: &str = "/home/sandbox/workspace/app";
/// Exit codes of the script.
const NO_GIT: i32 = 81;
const NOT_EMPTY: i32 = 82;
const REF_UNKNOWN: i32 = 83;

/// Options of git that check what a server sends. Faults of old, well-known repositories, which do no harm, are let
/// through.
pub const GIT_FSCK_OPTIONS: &str = "-c transfer.fsckObjects=true \
    -c fetch.fsck.badDate=warn -c fetch.fsck.badDateOverflow=warn -c fetch.fsck.zeroPaddedDate=warn \
    -c fetch.fsck.badTimezone=warn -c fetch.fsck.missingSpaceBeforeDate=warn -c fetch.fsck.badEmail=warn \
    -c fetch.fsck.badName=warn -c fetch.fsck.missingEmail=warn -c fetch.fsck.missingNameBeforeEmail=warn \
    -c fetch.fsck.missingSpaceBeforeEmail=warn -c fetch.fsck.zeroPaddedFilemode=warn \
    -c fetch.fsck.multipleAuthors=warn";

/// A repository to be cloned, without a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its address, as the caller wrote it.
    pub url: String,
    /// A branch, a tag or a commit. Absent: the default branch of the server.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The name of the secret with the credential. Absent: that of the server, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Absolute.
    pub dir: String,
}

/// Checks the repository of a spec, if it has one.
pub fn resolve_source(spec: &SandboxSpec) -> Result<Option<Source>, ApiError> {
    let Some(source) = &spec.source else { return Ok(None) };
    let source = resolve_app("source", source)?;
    let has_files = spec.seed.as_ref().is_some_and(|seed| seed.snapshot.is_some());
    let must = "needs an empty directory, and the snapshot of seed brings the app directory: give source.dir, or one of \
        the two";
    require("source", !has_files || source.dir != APP_DIR, must)?;
    Ok(Some(source))
}

fn resolve_app(field: &str, spec: &SourceSpec) -> Result<Source, ApiError> {
    let at = |name: &str| format!("{field}.{name}");
    let remote = resolve_remote(&at("url"), &spec.url)?;
    let depth = spec.depth.is_none_or(|depth| (1..=limits::SOURCE_DEPTH_MAX).contains(&depth));
    require(&at("depth"), depth, &format!("must be 1 to {}", limits::SOURCE_DEPTH_MAX))?;
    Ok(Source {
        revision: resolve_revision(&at("ref"), spec.reference.as_deref())?,
        secret: resolve_secret(&at("auth.secret"), spec.auth.as_ref(), &remote)?,
        url: remote.to_string(),
        depth: spec.depth,
        dir: resolve_dir(&at("dir"), spec.dir.as_deref())?,
    })
}

/// Checks the address of a repository that is cloned into a directory of hostd's choice.
pub fn resolve_repository(
    field: &str,
    (url, reference): (&str, Option<&str>),
    auth: Option<&SourceAuth>,
    dir: String,
) -> Result<Source, ApiError> {
    let at = |name: &str| format!("{field}.{name}");
    let remote = resolve_remote(&at("url"), url)?;
    Ok(Source {
        revision: resolve_revision(&at("ref"), reference)?,
        secret: resolve_secret(&at("auth.secret"), auth, &remote)?,
        url: remote.to_string(),
        depth: Some(1),
        dir,
    })
}

fn resolve_remote(field: &str, url: &str) -> Result<GitRemote, ApiError> {
    GitRemote::parse(url).map_err(|why| ApiError::invalid(field, why.to_string()))
}

fn resolve_revision(field: &str, text: Option<&str>) -> Result<Option<String>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    let revision = Revision::parse(text).map_err(|why| ApiError::invalid(field, why.to_string()))?;
    Ok(Some(revision.as_str().to_owned()))
}

fn resolve_secret(
    field: &str,
    auth: Option<&SourceAuth>,
    remote: &GitRemote,
) -> Result<Option<SecretName>, ApiError> {
    let Some(auth) = auth else { return Ok(None) };
    let name = SecretName::parse(&auth.secret).map_err(|why| ApiError::invalid(field, why.to_string()))?;
    if !remote.accepts_any_secret(name.as_str()) {
        let (wanted, labelled) = (remote.secret_name(), remote.labelled_secret_name());
        let message =
            format!("is not for this server: a credential for {remote} has the name {wanted} or {labelled}");
        return Err(ApiError::invalid(field, message));
    }
    Ok(Some(name))
}

/// A directory below the home directory, by its text.
fn resolve_dir(field: &str, dir: Option<&str>) -> Result<String, ApiError> {
    let Some(dir) = dir else { return Ok(APP_DIR.to_owned()) };
    let whole = if dir.starts_with('/') { dir.to_owned() } else { format!("{APP_DIR}/{dir}") };
    let below = whole.strip_prefix(HOME).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1);
    let plain = !whole.split('/').any(|name| name == "..") && !whole.chars().any(char::is_control);
    let good = below && plain && !dir.is_empty() && whole.len() <= limits::SETUP_PATH_MAX_BYTES;
    let must = format!("must be a directory below {HOME}, or relative to the app directory, without `..`");
    require(field, good, &must)?;
    Ok(whole.trim_end_matches('/').to_owned())
}

/// The mark of a clone, relative to the home directory.
pub fn clone_mark(source: &Source) -> String {
    let dir = source.dir.strip_prefix(HOME).unwrap_or(&source.dir).trim_start_matches('/');
    format!("{dir}/.git/slipway-clone")
}

/// The command that clones. All values are in its environment.
pub fn clone_argv() -> Vec<String> {
    vec!["/bin/sh".to_owned(), "-c".to_owned(), format!("{GIT_ISOLATION}{CLONE_SCRIPT}")]
}

/// The environment of the command; `origin` is the address as it is reached, `url_inside` the one at hostd.
pub fn clone_env(source: &Source, origin: &str, url_inside: &str) -> EnvMap {
    let depth = source.depth.map(|depth| format!("--depth={depth}")).unwrap_or_default();
    let values = [
        ("SLIPWAY_CLONE_URL", url_inside),
        ("SLIPWAY_CLONE_ORIGIN", origin),
        ("SLIPWAY_CLONE_DIR", &source.dir),
        ("SLIPWAY_CLONE_REF", source.revision.as_deref().unwrap_or_default()),
        ("SLIPWAY_CLONE_DEPTH", &depth),
        ("SLIPWAY_CLONE_FSCK", GIT_FSCK_OPTIONS),
        ("LC_ALL", "C"),
    ];
    values.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// The problem of a clone whose script ended with a code of its own, by that code and its output.
pub fn clone_problem(code: Option<i32>, lines: &[String]) -> ProblemCode {
    let is_full = |line: &String| line.contains("No space left on device") || line.contains("quota exceeded");
    match code {
        Some(REF_UNKNOWN) => ProblemCode::SourceRefUnknown,
        Some(NO_GIT | NOT_EMPTY) => ProblemCode::SourceFailed,
        Some(_) | None if lines.iter().any(is_full) => ProblemCode::SourceTooLarge,
        Some(_) | None => ProblemCode::SourceFailed,
    }
}

/// Clones into an empty directory. Its mark is written first and says `begun`, by which the next clone removes the rest of
/// one that was cut off, and last `done` with what was cloned, by which a clone whose end hostd did not see is not
/// repeated. hostd removes it when the end is recorded.
const CLONE_SCRIPT: &str = r#"
# What the history of refs says, which else had the address at hostd.
export GIT_REFLOG_ACTION=clone
fail() { printf '%s\n' "$2" >&2; exit "$1"; }
command -v git >/dev/null 2>&1 || fail 81 'the image has no program git'
url=$SLIPWAY_CLONE_URL ref=$SLIPWAY_CLONE_REF depth=$SLIPWAY_CLONE_DEPTH
mkdir -p -- "$SLIPWAY_CLONE_DIR"
cd -- "$SLIPWAY_CLONE_DIR"
mark=.git/slipway-clone
finished="done $SLIPWAY_CLONE_ORIGIN $ref"
if [ -f "$mark" ]; then
  if [ "$(cat "$mark")" = "$finished" ]; then exit 0; fi
  for one in * .[!.]* ..?*; do [ "$one" = .git ] || rm -rf -- "./$one"; done
  for one in .git/* .git/.[!.]* .git/..?*; do [ "$one" = "$mark" ] || rm -rf -- "$one"; done
elif [ "$(ls -A)" = .git ] && [ -d .git ] && [ -z "$(ls -A .git)" ]; then :
elif [ -n "$(ls -A)" ]; then fail 82 "$SLIPWAY_CLONE_DIR is not empty"
fi
mkdir -p .git
echo begun > "$mark"
git() {
  command git -c protocol.allow=never -c protocol.http.allow=always -c protocol.git.allow=always \
    -c http.followRedirects=false -c http.proxy= -c credential.helper= -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.attributesFile=/dev/null \
    $SLIPWAY_CLONE_FSCK -c submodule.recurse=false -c fetch.recurseSubmodules=false -c gc.auto=0 \
    -c maintenance.auto=false -c advice.detachedHead=false "$@"
}
git init -q --template= .
if [ -n "$ref" ]; then refs=$(git ls-remote "$url" "refs/heads/$ref" "refs/tags/$ref")
else refs=$(git ls-remote --symref "$url" HEAD); fi
nl='
'
tab=$(printf '\t')
branch='' what=''
if [ -z "$ref" ]; then
  branch=$(printf '%s\n' "$refs" | sed -n 's|^ref: refs/heads/\(.*\)[[:space:]]HEAD$|\1|p')
  if [ -z "$branch" ] && [ -n "$refs" ]; then what=HEAD; fi
else
  case "$refs$nl" in
  *"${tab}refs/heads/$ref$nl"*) branch=$ref ;;
  *"${tab}refs/tags/$ref$nl"*) what="+refs/tags/$ref:refs/tags/$ref" ;;
  *)
    case "$ref" in *[!0-9a-f]*) fail 83 "there is no branch or tag $ref" ;; esac
    case "${#ref}" in 40|64) what=$ref ;; *) fail 83 "there is no branch or tag $ref, and it is no whole hash" ;; esac ;;
  esac
fi
git remote add origin "$SLIPWAY_CLONE_ORIGIN"
if [ -n "$branch" ]; then
  all='+refs/heads/*:refs/remotes/origin/*'
  if [ -n "$depth" ]; then
    all="+refs/heads/$branch:refs/remotes/origin/$branch"
    git config remote.origin.fetch "$all"
  fi
  git fetch -q $depth "$url" "$all"
  git checkout -q --no-track -B "$branch" "refs/remotes/origin/$branch"
  git branch -q --set-upstream-to="origin/$branch"
elif [ -n "$what" ]; then
  git fetch -q $depth "$url" "$what" || {
    if [ "$what" = "$ref" ]; then fail 83 "the server has no commit $ref"; fi
    exit 1
  }
  git checkout -q --detach FETCH_HEAD
fi
rm -f .git/FETCH_HEAD
printf '%s\n' "$finished" > "$mark.new"
mv -f "$mark.new" "$mark"
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn resolve(spec: Value) -> Result<Source, Option<String>> {
        let spec: SourceSpec = serde_json::from_value(spec).expect("a source");
        resolve_app("source", &spec).map_err(|error| error.detail.field)
    }

    #[test]
    fn a_source_is_not_cloned_over_the_files_of_a_snapshot() {
        let resolve = |dir: Option<&str>, seed: Value| {
            let spec = json!({"source": {"url": "https://example.com/a", "dir": dir}, "seed": seed});
            let spec: SandboxSpec = serde_json::from_value(spec).expect("a spec");
            resolve_source(&spec).map(|source| source.is_some()).map_err(|error| error.detail.field)
        };
        let snapshot = json!({"snapshot": "01k00000000000000000000000"});
        assert_eq!(resolve(None, snapshot.clone()), Err(Some("source".to_owned())));
        assert_eq!(
            resolve(Some("/home/sandbox/workspace/app/"), snapshot.clone()),
            Err(Some("source".to_owned()))
        );
        assert_eq!(resolve(Some("web"), snapshot), Ok(true));
        assert_eq!(resolve(None, json!({"template": "web"})), Ok(true));
        assert_eq!(resolve(None, Value::Null), Ok(true));
        assert_eq!(resolve_source(&SandboxSpec::default()), Ok(None));
    }

    #[test]
    fn the_mark_of_a_clone_is_in_its_repository() {
        let source = resolve(json!({"url": "https://example.com/a", "dir": "web"})).expect("good");
        assert_eq!(clone_mark(&source), "workspace/app/web/.git/slipway-clone");
    }

    #[test]
    fn a_source_is_defaulted() {
        let source = resolve(json!({"url": "git@example.com:acme/web.git"})).expect("good");
        assert_eq!(source.url, "git@example.com:acme/web.git");
        assert_eq!((source.dir.as_str(), source.depth, source.revision), (APP_DIR, None, None));
        let source = resolve(json!({"url": "https://example.com/a/b", "dir": "web", "ref": "v1.2",
            "auth": {"secret": "git.example.com"}, "depth": 1}));
        let source = source.expect("good");
        assert_eq!(source.dir, "/home/sandbox/workspace/app/web");
        assert_eq!(source.secret.map(|name| name.to_string()).as_deref(), Some("git.example.com"));
        let key = json!({"url": "ssh://git@host:2222/a/b", "auth": {"secret": "ssh.host_2222"}});
        assert_eq!(resolve(key).expect("good").url, "ssh://git@host:2222/a/b");
    }

    #[test]
    fn invalid_sources_are_refused_by_field() {
        let url = "https://example.com/a/b";
        let table = [
            (json!({"url": ""}), "source.url"),
            (json!({"url": "file:///etc"}), "source.url"),
            (json!({"url": "https://user:password@example.com/a"}), "source.url"),
            (json!({"url": "--upload-pack=x"}), "source.url"),
            (json!({"url": url, "ref": "-x"}), "source.ref"),
            (json!({"url": url, "ref": "a..b"}), "source.ref"),
            (json!({"url": url, "depth": 0}), "source.depth"),
            (json!({"url": url, "dir": "/etc"}), "source.dir"),
            (json!({"url": url, "dir": "../../../x"}), "source.dir"),
            (json!({"url": url, "dir": ""}), "source.dir"),
            (json!({"url": url, "auth": {"secret": "git.other.com"}}), "source.auth.secret"),
            (json!({"url": url, "auth": {"secret": "ssh.example.com"}}), "source.auth.secret"),
            (json!({"url": "git@host:a", "auth": {"secret": "git.host"}}), "source.auth.secret"),
            (json!({"url": url, "auth": {"secret": "A B"}}), "source.auth.secret"),
        ];
        for (spec, field) in table {
            assert_eq!(resolve(spec.clone()), Err(Some(field.to_owned())), "{spec}");
        }
    }
}
