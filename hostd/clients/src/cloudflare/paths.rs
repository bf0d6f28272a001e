//! Paths as clients of the bridge have them: below `/workspace`, which is the app directory of a sandbox.

use crate::{percent, shell_session::SessionDirectory};

/// The app directory, by the name that clients know.
pub const WORKSPACE: &str = "/workspace";
/// The same directory, by its own name.
const APP_DIR: &str = "/home/sandbox/workspace/app";

/// A path in `/workspace`: relative to it, without `.`, `..` and empty parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgePath(Vec<u8>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the path must resolve to a location within {WORKSPACE}")]
pub struct OutsideWorkspace;

impl BridgePath {
    /// Parses a path that is absolute, or relative to `/workspace`. Links are followed later, by the files API, which does
    /// not leave the workspace either.
    pub fn parse(path: &[u8]) -> Result<Self, OutsideWorkspace> {
        let workspace = WORKSPACE.trim_start_matches('/').as_bytes();
        let mut parts: Vec<&[u8]> = if path.starts_with(b"/") { vec![] } else { vec![workspace] };
        for part in path.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => drop(parts.pop()),
                name => parts.push(name),
            }
        }
        match parts.split_first() {
            Some((first, rest)) if *first == workspace => Ok(Self(rest.join(&b'/'))),
            Some(_) | None => Err(OutsideWorkspace),
        }
    }

    /// The path as the files API takes it in a query.
    pub fn in_query(&self) -> String {
        percent::encode(&self.below(APP_DIR))
    }

    /// The path by the name of the directory that every image has.
    pub fn inside(&self) -> Option<String> {
        String::from_utf8(self.below(APP_DIR)).ok()
    }

    /// The path as the working directory of a session.
    pub fn directory(&self) -> Option<SessionDirectory> {
        Some(SessionDirectory { path: self.inside()?, shown: Some(self.shown()) })
    }

    /// The path as clients have it.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.below(WORKSPACE)).into_owned()
    }

    fn below(&self, top: &str) -> Vec<u8> {
        let slash: &[u8] = if self.0.is_empty() { b"" } else { b"/" };
        [top.as_bytes(), slash, &self.0].concat()
    }
}

/// Names the content of `/workspace`, not the link that it is, where an argument is that directory: `ls -l` and `find`
/// do not follow it.
pub fn through_link(argument: String) -> String {
    if argument == WORKSPACE { format!("{WORKSPACE}/") } else { argument }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_in_the_workspace_or_is_refused() {
        for (given, expected) in [
            ("/workspace", Some("")),
            ("/workspace/", Some("")),
            ("/workspace/a/./b//c", Some("a/b/c")),
            ("/workspace/a/../b", Some("b")),
            ("/workspace/../workspace/a", Some("a")),
            ("/../../workspace/a", Some("a")),
            ("", Some("")),
            ("a/b", Some("a/b")),
            ("..", None),
            ("../workspace2", None),
            ("/workspace/..", None),
            ("/workspace/../etc/passwd", None),
            ("/workspaces/a", None),
            ("/etc/passwd", None),
            ("/", None),
        ] {
            let parsed = BridgePath::parse(given.as_bytes()).ok();
            assert_eq!(parsed, expected.map(|text| BridgePath(text.into())), "{given}");
        }
    }

    #[test]
    fn a_path_has_a_name_on_each_side() {
        let path = BridgePath::parse(b"/workspace/a b").expect("within");
        assert_eq!(path.in_query(), "/home/sandbox/workspace/app/a%20b");
        assert_eq!(path.inside().as_deref(), Some("/home/sandbox/workspace/app/a b"));
        assert_eq!(path.shown(), "/workspace/a b");
        assert_eq!(BridgePath::parse(b"").expect("within").shown(), "/workspace");
    }
}
