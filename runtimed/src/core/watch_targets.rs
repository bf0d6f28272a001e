//! Maps changed paths to the manifest and to services.

use protocol::ServiceName;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A file or a directory; need not exist.
    pub path: PathBuf,
    pub purpose: Purpose,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    Manifest,
    Service(ServiceName),
}

/// Changed files: the manifest, and files of services.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    pub manifest: bool,
    pub services: BTreeSet<ServiceName>,
}

impl Change {
    pub fn is_empty(&self) -> bool {
        !self.manifest && self.services.is_empty()
    }

    /// Adds a changed path; whether any target is affected. A target is affected by changes in it, unless in
    /// or to an ignored directory, and by changes to a directory that contains it.
    pub fn add(&mut self, path: &Path, is_directory: bool, targets: &[Target]) -> bool {
        let mut any = false;
        for target in targets {
            let touched = match path.strip_prefix(&target.path) {
                Ok(below) => !is_in_ignored_dir(below, is_directory),
                Err(_) => target.path.starts_with(path),
            };
            any |= touched;
            match &target.purpose {
                Purpose::Manifest if touched => self.manifest = true,
                Purpose::Service(name) if touched => drop(self.services.insert(name.clone())),
                Purpose::Manifest | Purpose::Service(_) => {}
            }
        }
        any
    }
}

/// Whether a path below a target is in an ignored directory or is one.
fn is_in_ignored_dir(below: &Path, is_directory: bool) -> bool {
    let directories = if is_directory { Some(below) } else { below.parent() };
    let mut names = directories.into_iter().flat_map(Path::iter).filter_map(|name| name.to_str());
    names.any(is_ignored)
}

/// Directories that are large, change all the time and hold no source code.
const IGNORED: [&str; 10] =
    ["node_modules", ".git", "target", "dist", "build", ".next", ".vite", ".venv", "__pycache__", ".cache"];

pub fn is_ignored(name: &str) -> bool {
    IGNORED.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_touched_from_inside_and_from_above() {
        let name = ServiceName::parse("web").expect("a good name");
        let targets = [
            Target { path: "/app/sandbox.yaml".into(), purpose: Purpose::Manifest },
            Target { path: "/app/src".into(), purpose: Purpose::Service(name.clone()) },
        ];
        for (path, is_directory, manifest, service) in [
            ("/app/sandbox.yaml", false, true, false),
            ("/app/src/main.ts", false, false, true),
            ("/app/src/build", false, false, true),
            ("/app/src/build", true, false, false),
            ("/app/src/a/node_modules/b/c", false, false, false),
            ("/app/src", true, false, true),
            ("/app", true, true, true),
            ("/app/node_modules", true, false, false),
            ("/app/srcs/x", false, false, false),
            ("/app/sandbox.yaml.swp", false, false, false),
        ] {
            let mut change = Change::default();
            let any = change.add(Path::new(path), is_directory, &targets);
            assert_eq!((change.manifest, change.services.contains(&name)), (manifest, service), "{path}");
            assert_eq!(any, manifest || service, "{path}");
        }
    }
}
