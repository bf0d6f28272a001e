//! The handle on agents: their definitions, the briefing, and the programs installed on this host.

use super::{AgentDefinition, AgentTable, Briefing};
use protocol::AGENTS_DIR;
use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Most symbolic links that are followed from a name to its program.
const LINKS_MAX: usize = 8;

/// A cheap handle; clones share everything.
#[derive(Clone)]
pub struct Agents {
    inner: Arc<AgentsInner>,
}

struct AgentsInner {
    table: AgentTable,
    briefing: Briefing,
    dir: Option<PathBuf>,
}

impl Agents {
    /// Creates the handle. `dir` need not exist.
    pub fn new(table: AgentTable, briefing: Briefing, dir: Option<PathBuf>) -> Self {
        Self { inner: Arc::new(AgentsInner { table, briefing, dir }) }
    }

    pub fn table(&self) -> &AgentTable {
        &self.inner.table
    }

    pub fn briefing(&self) -> &Briefing {
        &self.inner.briefing
    }

    /// Returns the directory on this host, which every sandbox sees as [`AGENTS_DIR`].
    pub fn dir(&self) -> Option<&Path> {
        self.inner.dir.as_deref()
    }

    /// Returns the path inside sandboxes of an agent's program, if this host has it installed.
    pub fn installed(&self, definition: &AgentDefinition) -> Option<String> {
        let dir = self.inner.dir.as_deref()?;
        let names = definition.find.iter().filter(|name| !name.contains('/'));
        names
            .map(|name| format!("bin/{name}"))
            .find(|path| is_program(dir, path))
            .map(|path| format!("{AGENTS_DIR}/{path}"))
    }

    /// Returns how to install an agent that a sandbox does not have.
    pub fn how_to_install(&self, name: &str) -> String {
        let definition = self.inner.table.get(name);
        let program = definition.and_then(|definition| definition.find.first()).map_or(name, String::as_str);
        if definition.is_some_and(|definition| definition.install.is_some()) {
            return format!(
                "install it with `scripts/agents {name}`, or put `{program}` on the PATH of the image"
            );
        }
        format!(
            "put `{program}` on the PATH of the image, or into `bin` of the agents' directory of this host"
        )
    }

    /// Returns the program to start, unless the sandbox is known to have another one.
    pub fn program<'a>(&self, definition: &'a AgentDefinition) -> &'a str {
        let installed = self.installed(definition);
        let name = |path: &String| path.rsplit('/').next().unwrap_or_default().to_owned();
        let found = installed.as_ref().map(name);
        let first =
            definition.find.iter().find(|name| Some(*name) == found.as_ref()).or(definition.find.first());
        first.map_or("", String::as_str)
    }
}

impl Default for Agents {
    fn default() -> Self {
        let table = AgentTable::new(&toml::Table::new()).expect("the built-in table is good: a test says so");
        Self::new(table, Briefing::default(), None)
    }
}

/// Returns whether a path is a program as a sandbox sees it: a link that leads out of the directory is broken
/// there.
fn is_program(dir: &Path, path: &str) -> bool {
    let mut path = dir.join(path);
    for _ in 0..LINKS_MAX {
        let Ok(meta) = fs::symlink_metadata(&path) else { return false };
        if !meta.is_symlink() {
            return meta.is_file() && meta.permissions().mode() & 0o111 != 0 && is_within(dir, &path);
        }
        let Ok(next) = link_target(&path) else { return false };
        path = next;
    }
    false
}

/// Returns the target of a relative link; an absolute one means another file inside a sandbox.
fn link_target(link: &Path) -> io::Result<PathBuf> {
    let target = fs::read_link(link)?;
    if target.is_absolute() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(link.parent().unwrap_or(Path::new("/")).join(target))
}

fn is_within(dir: &Path, path: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    matches!((real(dir), real(path)), (Some(dir), Some(path)) if path.starts_with(&dir))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_program_is_one_that_a_sandbox_can_start_too() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = temp.path().join("agents");
        for name in ["bin", "opencode/lib"] {
            fs::create_dir_all(dir.join(name)).expect("a directory");
        }
        let program = |path: &Path, mode| {
            fs::write(path, "#!/bin/sh\n").expect("a file");
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
        };
        program(&dir.join("opencode/lib/it"), 0o755);
        program(&temp.path().join("outside"), 0o755);
        program(&dir.join("bin/plain"), 0o755);
        program(&dir.join("bin/data"), 0o644);
        let links = [
            ("good", "../opencode/lib/it"),
            ("out", "../../outside"),
            ("host", "/bin/sh"),
            ("gone", "nowhere"),
            ("loop", "loop"),
        ];
        for (name, target) in links {
            symlink(target, dir.join("bin").join(name)).expect("a link");
        }
        let agents = Agents::new(Agents::default().table().clone(), Briefing::default(), Some(dir));
        let table = [
            ("plain", Some("/opt/slipway/agents/bin/plain")),
            ("good", Some("/opt/slipway/agents/bin/good")),
            ("data", None),
            ("out", None),
            ("host", None),
            ("gone", None),
            ("loop", None),
            ("bin/plain", None),
        ];
        for (name, expected) in table {
            let definition = AgentDefinition { find: vec![name.to_owned()], ..AgentDefinition::default() };
            assert_eq!(agents.installed(&definition).as_deref(), expected, "{name}");
        }
        let both = AgentDefinition {
            find: vec!["gone".to_owned(), "good".to_owned()],
            ..AgentDefinition::default()
        };
        assert_eq!(agents.program(&both), "good");
        let neither =
            AgentDefinition { find: vec!["gone".to_owned(), "out".to_owned()], ..AgentDefinition::default() };
        assert_eq!(agents.program(&neither), "gone");
    }
}
