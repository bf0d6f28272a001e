//! Where a path leads: into the workspace, which the files API serves, or elsewhere in the sandbox, where only a command of
//! its user can go.

use super::super::error::SandboxError;
use crate::percent;

const HOME: &str = "/home/sandbox";
const APP_DIR: &str = "/home/sandbox/workspace/app";
/// The name of the app directory that clients know.
const WORKSPACE: &str = "/workspace";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A path of the files API, encoded for a query.
    Workspace(String),
    /// An absolute path.
    Elsewhere(String),
}

/// Returns the absolute path of one that is relative to the app directory, or below the name of it that clients know.
pub fn in_app_dir(path: String) -> String {
    match path.strip_prefix(WORKSPACE) {
        Some("") => APP_DIR.to_owned(),
        Some(rest) if rest.starts_with('/') => format!("{APP_DIR}{rest}"),
        Some(_) | None if path.starts_with('/') => path,
        Some(_) | None => format!("{APP_DIR}/{path}"),
    }
}

/// Checks a path that a client names, and makes it absolute.
pub fn absolute(path: String) -> Result<String, SandboxError> {
    if path.is_empty() || path.contains('\0') {
        return Err(SandboxError::invalid("a path must not be empty, and has no zero byte"));
    }
    Ok(in_app_dir(path))
}

impl Place {
    /// `..` is left to the sandbox's own user, who may go where it leads.
    pub fn of(path: &str) -> Self {
        let plain = !path.split('/').any(|part| part == "..");
        match path.strip_prefix(HOME) {
            Some(rest) if plain && (rest.is_empty() || rest.starts_with('/')) => {
                Self::Workspace(percent::encode(path.as_bytes()))
            }
            Some(_) | None => Self::Elsewhere(path.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_absolute_and_has_a_place() {
        for (given, expected, in_workspace) in [
            ("a b", "/home/sandbox/workspace/app/a b", true),
            ("/workspace", "/home/sandbox/workspace/app", true),
            ("/workspace/a", "/home/sandbox/workspace/app/a", true),
            ("/workspaces/a", "/workspaces/a", false),
            ("/home/sandbox/x", "/home/sandbox/x", true),
            ("/home/sandbox", "/home/sandbox", true),
            ("/home/sandboxes", "/home/sandboxes", false),
            ("/workspace/../../../etc", "/home/sandbox/workspace/app/../../../etc", false),
            ("/tmp/x", "/tmp/x", false),
        ] {
            let path = absolute(given.to_owned()).expect("good");
            assert_eq!(path, expected);
            assert_eq!(matches!(Place::of(&path), Place::Workspace(_)), in_workspace, "{given}");
        }
        assert!(absolute(String::new()).is_err() && absolute("a\0b".to_owned()).is_err());
    }
}
