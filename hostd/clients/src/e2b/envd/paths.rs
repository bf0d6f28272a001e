//! Paths as clients of E2B write them. Their home `/home/user` is the workspace, `/home/sandbox`; what is there is reached as
//! files of the workspace, everything else through a process inside the sandbox.

use super::{limits::PATH_MAX_BYTES, sandbox_api::SandboxApi};
use protocol::{
    api::{FileView, SandboxId},
    files::{FilePath, FileType},
};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// The home of clients, and of the sandbox.
pub const CLIENT_HOME: &str = "/home/user";
pub const OWN_HOME: &str = "/home/sandbox";
/// Sandboxes whose home is remembered; beyond that it is looked up again.
const HOMES_MAX: usize = 4_096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("the path has more than {PATH_MAX_BYTES} bytes")]
    TooLong,
    #[error("the path has a NUL byte")]
    Nul,
}

/// A path without `.`, `..` and repeated slashes, absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPath {
    text: String,
}

impl ClientPath {
    /// Relative paths, and `~`, are relative to the home.
    pub fn parse(given: &str) -> Result<Self, PathError> {
        if given.len() > PATH_MAX_BYTES {
            return Err(PathError::TooLong);
        }
        if given.contains('\0') {
            return Err(PathError::Nul);
        }
        let below_home = match given.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => Some(rest),
            Some(_) | None => (!given.starts_with('/')).then_some(given),
        };
        Ok(Self {
            text: cleaned(
                &below_home.map_or_else(|| given.to_owned(), |rest| format!("{CLIENT_HOME}/{rest}")),
            ),
        })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The last name; that of the root is `/`.
    pub fn name(&self) -> &str {
        self.text.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("/")
    }

    /// The path below the workspace, if it is there.
    pub fn in_workspace(&self) -> Option<&str> {
        let below = |home: &str| {
            let rest = self.text.strip_prefix(home)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
        };
        below(CLIENT_HOME).or_else(|| below(OWN_HOME))
    }

    /// The query of a call about this path, for the parameter of this name.
    pub fn query(&self, parameter: &str) -> String {
        match self.in_workspace() {
            Some(below) => format!("{parameter}={}", encoded(below)),
            None => format!("{parameter}={}&anywhere=1", encoded(&self.text)),
        }
    }

    /// The same path as one of the whole sandbox: links that lead out of the workspace are followed.
    pub fn query_anywhere(&self, parameter: &str) -> String {
        format!("{parameter}={}&anywhere=1", encoded(&self.inside()))
    }

    /// The path as programs of the sandbox find it in every image.
    pub fn inside(&self) -> String {
        match self.in_workspace() {
            Some("") => OWN_HOME.to_owned(),
            Some(below) => format!("{OWN_HOME}/{below}"),
            None => self.text.clone(),
        }
    }

    /// The path of an entry below this one, whose path in the API is `found`.
    pub fn of_entry(&self, found: &FileView) -> Self {
        let own = self.in_workspace().unwrap_or(&self.text);
        let rest = found.path.strip_prefix(own).unwrap_or(&found.path);
        Self { text: cleaned(&format!("{}/{rest}", self.text)) }
    }

    /// Where a link at this path leads, written as this path is.
    pub fn target(&self, target: &str) -> Self {
        let absolute = match target.strip_prefix('/') {
            Some(_) => target.to_owned(),
            None => format!("{}/../{target}", self.text),
        };
        let text = cleaned(&absolute);
        match text.strip_prefix(OWN_HOME) {
            Some(rest) if !self.text.starts_with(OWN_HOME) && (rest.is_empty() || rest.starts_with('/')) => {
                Self { text: format!("{CLIENT_HOME}{rest}") }
            }
            Some(_) | None => Self { text },
        }
    }
}

/// The path percent-encoded, for a query.
pub fn encoded(path: &str) -> String {
    FilePath::from(path).encoded()
}

/// Resolves `.` and `..` by the text alone, as clients expect it.
fn cleaned(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

/// Which sandboxes have `/home/user` for programs, too: images of ours do, and those where nothing has that name.
#[derive(Default)]
pub struct UserHomes(Mutex<HashMap<SandboxId, bool>>);

impl UserHomes {
    /// The home for programs of this sandbox. Looked up once: images do not change.
    pub async fn of(&self, api: &SandboxApi) -> &'static str {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&api.sandbox).copied();
        let is_linked = match known {
            Some(is_linked) => is_linked,
            None => match look_up(api).await {
                Some(is_linked) => {
                    self.remember(api.sandbox, is_linked);
                    is_linked
                }
                // Asked again the next time.
                None => false,
            },
        };
        if is_linked { CLIENT_HOME } else { OWN_HOME }
    }

    /// Notes that the sandbox has the link.
    pub fn remember(&self, sandbox: SandboxId, is_linked: bool) {
        let mut homes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if homes.len() >= HOMES_MAX {
            homes.clear();
        }
        homes.insert(sandbox, is_linked);
    }
}

/// `None` where it can not be known now.
async fn look_up(api: &SandboxApi) -> Option<bool> {
    let found = api.get::<FileView>(&format!("/files/stat?anywhere=1&path={CLIENT_HOME}")).await;
    match found {
        Ok(entry) => Some(entry.kind == FileType::Symlink && is_own_home(entry.target.as_deref())),
        Err(failure) if failure.status == hyper::StatusCode::NOT_FOUND => Some(false),
        Err(_) => None,
    }
}

fn is_own_home(target: Option<&str>) -> bool {
    matches!(target, Some("sandbox" | OWN_HOME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_a_client_is_one_of_the_workspace_or_of_the_sandbox() {
        let table = [
            ("x", "/home/user/x", Some("x")),
            ("", "/home/user", Some("")),
            ("~", "/home/user", Some("")),
            ("~/a b", "/home/user/a b", Some("a b")),
            ("~x", "/home/user/~x", Some("~x")),
            ("/home/user", "/home/user", Some("")),
            ("/home/user//a/./b/", "/home/user/a/b", Some("a/b")),
            ("/home/sandbox/a", "/home/sandbox/a", Some("a")),
            ("/home/users/a", "/home/users/a", None),
            ("/home/user/../user2", "/home/user2", None),
            ("../../etc/passwd", "/etc/passwd", None),
            ("/home/user/a/../../../tmp", "/tmp", None),
            ("/../..", "/", None),
            ("/tmp/ü", "/tmp/ü", None),
        ];
        for (given, text, below) in table {
            let path = ClientPath::parse(given).expect("a path");
            assert_eq!((path.as_str(), path.in_workspace()), (text, below), "{given:?}");
        }
        assert_eq!(ClientPath::parse("a\0"), Err(PathError::Nul));
        assert_eq!(ClientPath::parse(&"a".repeat(5_000)), Err(PathError::TooLong));
        let path = |text| ClientPath::parse(text).expect("a path");
        assert_eq!(path("a b?&").query("path"), "path=a%20b%3F%26");
        assert_eq!(path("/tmp/x").query("from"), "from=/tmp/x&anywhere=1");
        assert_eq!(path("x").query_anywhere("path"), "path=/home/sandbox/x&anywhere=1");
        assert_eq!((path("/").name(), path("/a/b").name()), ("/", "b"));
    }

    #[test]
    fn a_link_leads_where_its_client_would_look() {
        let link = |text| ClientPath::parse(text).expect("a path");
        for (at, target, expected) in [
            ("a/l", "b", "/home/user/a/b"),
            ("a/l", "../b", "/home/user/b"),
            ("l", "/home/sandbox/b", "/home/user/b"),
            ("/home/sandbox/l", "/home/sandbox/b", "/home/sandbox/b"),
            ("l", "/etc/hosts", "/etc/hosts"),
        ] {
            assert_eq!(link(at).target(target).as_str(), expected, "{at} -> {target}");
        }
    }
}
