//! `SANDBOX:PATH`, as with scp. Pure.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

/// The workspace inside a sandbox.
const HOME: &[u8] = b"/home/sandbox";

/// A path of a workspace: bytes, relative to `/home/sandbox`, without empty and `.` components. Empty is the top.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath(Vec<u8>);

/// A path in a sandbox, as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPath {
    /// Id, prefix of an id, or name.
    pub sandbox: String,
    pub path: WorkspacePath,
    /// Whether it was typed with a slash or a dot at its end, and so means a directory.
    pub names_directory: bool,
    /// Whether it was typed with a dot at its end, and so means the content of a directory.
    pub names_content: bool,
}

/// A source or destination of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyPath {
    Local(PathBuf),
    InSandbox(SandboxPath),
    /// `-`: standard input or output.
    Stdio,
}

impl WorkspacePath {
    /// Parses a path that is absolute below `/home/sandbox`, or relative to it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let shown = || String::from_utf8_lossy(bytes).into_owned();
        if bytes.contains(&0) {
            return Err("a path has no zero byte".to_owned());
        }
        let relative = match bytes.strip_prefix(HOME) {
            Some([]) => &[],
            Some([b'/', rest @ ..]) => rest,
            Some(_) | None if bytes.starts_with(b"/") => {
                return Err(format!(
                    "{:?} is outside of the workspace; give a path below /home/sandbox, or one relative to it",
                    shown()
                ));
            }
            Some(_) | None => match bytes {
                b"~" => &[],
                [b'~', b'/', rest @ ..] => rest,
                bytes => bytes,
            },
        };
        if relative.split(|byte| *byte == b'/').any(|name| name == b"..") {
            return Err(format!("{:?} has `..`; write the path without it", shown()));
        }
        Ok(Self::from_relative(relative))
    }

    /// Parses a path of a response of hostd.
    pub fn from_relative(bytes: &[u8]) -> Self {
        let names: Vec<&[u8]> =
            bytes.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")).collect();
        Self(names.join(&b'/'))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn is_top(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the last name; none for the top.
    pub fn name(&self) -> Option<&[u8]> {
        self.0.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty())
    }

    pub fn join(&self, name: &[u8]) -> Self {
        Self::from_relative(&[self.as_bytes(), name].join(&b'/'))
    }

    /// Returns the rest of a path below this one.
    pub fn strip_from<'a>(&self, path: &'a Self) -> Option<&'a [u8]> {
        if self.is_top() {
            return Some(path.as_bytes());
        }
        let rest = path.as_bytes().strip_prefix(self.as_bytes())?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
    }
}

/// As people type it; sanitized where it is printed.
impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(if self.is_top() { b"." } else { &self.0 }))
    }
}

impl fmt::Debug for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl SandboxPath {
    /// Parses `SANDBOX:PATH`; the path may be empty.
    pub fn parse(text: &OsStr) -> Result<Self, String> {
        match CopyPath::parse(text)? {
            CopyPath::InSandbox(path) => Ok(path),
            CopyPath::Local(_) | CopyPath::Stdio => {
                Err("must be SANDBOX:PATH, as in web:workspace/app".to_owned())
            }
        }
    }
}

impl CopyPath {
    /// Parses an argument as scp does: a path with a slash before the first colon is local.
    pub fn parse(text: &OsStr) -> Result<Self, String> {
        let bytes = text.as_bytes();
        if bytes == b"-" {
            return Ok(Self::Stdio);
        }
        let colon = bytes.iter().position(|byte| *byte == b':').filter(|at| *at > 0);
        let Some(colon) = colon.filter(|at| !bytes[..*at].contains(&b'/')) else {
            return Ok(Self::Local(PathBuf::from(text)));
        };
        let sandbox = std::str::from_utf8(&bytes[..colon]).map_err(|_| "the name of a sandbox is text")?;
        let path = &bytes[colon + 1..];
        let names_content = path == b"." || path.ends_with(b"/.");
        let names_directory = names_content || path.is_empty() || path.ends_with(b"/");
        let path = WorkspacePath::parse(path)?;
        let sandbox = sandbox.to_owned();
        Ok(Self::InSandbox(SandboxPath { sandbox, path, names_directory, names_content }))
    }
}

/// The bytes of a name as a path of this machine.
pub fn os_name(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_the_workspace_however_it_is_written() {
        let table = [
            ("", Ok("")),
            (".", Ok("")),
            ("~", Ok("")),
            ("~/a", Ok("a")),
            ("a/./b//c/", Ok("a/b/c")),
            ("/home/sandbox", Ok("")),
            ("/home/sandbox/", Ok("")),
            ("/home/sandbox/a", Ok("a")),
            ("/home/sandboxes/a", Err(())),
            ("/etc/passwd", Err(())),
            ("/", Err(())),
            ("../a", Err(())),
            ("a/../../b", Err(())),
            ("a..b", Ok("a..b")),
            ("a:b", Ok("a:b")),
            ("a\0b", Err(())),
        ];
        for (text, expected) in table {
            let parsed = WorkspacePath::parse(text.as_bytes());
            let parsed = parsed.map(|path| path.as_bytes().to_vec()).map_err(|_| ());
            assert_eq!(parsed, expected.map(|text| text.as_bytes().to_vec()), "{text:?}");
        }
        assert_eq!(
            WorkspacePath::parse(b"/etc").unwrap_err(),
            "\"/etc\" is outside of the workspace; give a path below /home/sandbox, or one relative to it"
        );
    }

    #[test]
    fn a_colon_after_a_plain_name_means_a_sandbox() {
        let shown = |text: &str| match CopyPath::parse(OsStr::new(text)) {
            Ok(CopyPath::Local(path)) => format!("local {}", path.display()),
            Ok(CopyPath::Stdio) => "stdio".to_owned(),
            Ok(CopyPath::InSandbox(SandboxPath { sandbox, path, names_directory, .. })) => {
                format!("{sandbox} {path}{}", if names_directory { " directory" } else { "" })
            }
            Err(error) => error,
        };
        let table = [
            "src",
            "web:src",
            "web:",
            "web:src/",
            "web:.",
            "./odd:name",
            "/a:b",
            ":x",
            "-",
            "./-",
            "web:/etc/x",
        ];
        insta::assert_snapshot!(table.map(|text| format!("{text} = {}", shown(text))).join("\n"), @r#"
        src = local src
        web:src = web src
        web: = web . directory
        web:src/ = web src directory
        web:. = web . directory
        ./odd:name = local ./odd:name
        /a:b = local /a:b
        :x = local :x
        - = stdio
        ./- = local ./-
        web:/etc/x = "/etc/x" is outside of the workspace; give a path below /home/sandbox, or one relative to it
        "#);
    }

    #[test]
    fn a_path_below_another_has_a_rest() {
        let path = |text: &str| WorkspacePath::parse(text.as_bytes()).expect("a path");
        let table =
            [("", "a/b", Some("a/b")), ("a", "a/b", Some("b")), ("a", "a", Some("")), ("a", "ab", None)];
        for (top, below, rest) in table {
            assert_eq!(path(top).strip_from(&path(below)), rest.map(str::as_bytes), "{top} {below}");
        }
        assert_eq!(path("a/b").name(), Some(b"b".as_slice()));
        assert_eq!((path("").name(), path("").join(b"x")), (None, path("x")));
    }
}
