//! Loads what the configuration names for agents: their directory and the briefing file.

use super::{AgentConfigError, AgentTable, Agents, Briefing};
use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

const BRIEFING_MAX_BYTES: u64 = 64 << 10;
/// Where `scripts/agents` installs agents by default.
const DEFAULT_DIR: &str = "/opt/slipway/agents";

impl Agents {
    pub fn open(
        table: AgentTable,
        dir: Option<&Path>,
        briefing: Option<&Path>,
    ) -> Result<Self, AgentConfigError> {
        let briefing = briefing.map(read_briefing).transpose()?.unwrap_or_default();
        let dir = match dir {
            Some(dir) => checked(dir)?,
            // The directory may be created while hostd runs.
            None => PathBuf::from(DEFAULT_DIR),
        };
        Ok(Self::new(table, briefing, Some(dir)))
    }
}

/// Resolves the directory and checks that sandboxes can reach it: root of a sandbox has no rights on the
/// host, so every parent directory must be passable for others.
fn checked(dir: &Path) -> Result<PathBuf, AgentConfigError> {
    let bad = |message: String| AgentConfigError { key: "SLIPWAY_AGENTS_DIR".to_owned(), message };
    let real = fs::canonicalize(dir).ok().filter(|real| real.is_dir() && real.parent().is_some());
    let real = real.ok_or_else(|| {
        bad(format!("must be a directory, as `scripts/agents` makes one; there is none at {}", dir.display()))
    })?;
    let blocked = |part: &&Path| fs::metadata(part).is_ok_and(|meta| meta.permissions().mode() & 0o001 == 0);
    match real.ancestors().find(blocked) {
        Some(part) => {
            Err(bad(format!("sandboxes cannot reach it: make {} passable (chmod o+x)", part.display())))
        }
        None => Ok(real),
    }
}

fn read_briefing(path: &Path) -> Result<Briefing, AgentConfigError> {
    let bad = |message: String| AgentConfigError { key: "SLIPWAY_BRIEFING_FILE".to_owned(), message };
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(BRIEFING_MAX_BYTES + 1).read_to_string(&mut text));
    read.map_err(|error| bad(format!("{} cannot be read: {error}", path.display())))?;
    if text.len() as u64 > BRIEFING_MAX_BYTES {
        return Err(bad(format!("must be at most {BRIEFING_MAX_BYTES} bytes")));
    }
    Briefing::new(text).map_err(|error| bad(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_is_named() {
        let temp = tempfile::tempdir().expect("a directory");
        let open = |dir: Option<&Path>, briefing: Option<&Path>| {
            let table = Agents::default().table().clone();
            Agents::open(table, dir, briefing).map(|_| ()).map_err(|error| error.to_string())
        };
        let (missing, closed, text) =
            (temp.path().join("none"), temp.path().join("closed"), temp.path().join("text"));
        fs::create_dir(&closed).expect("a directory");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("its mode");
        fs::write(&text, "{what}").expect("a file");
        let table = [
            (open(Some(&missing), None), "SLIPWAY_AGENTS_DIR: must be a directory"),
            (open(Some(&closed), None), "SLIPWAY_AGENTS_DIR: sandboxes cannot reach it"),
            (open(Some(Path::new("/")), None), "SLIPWAY_AGENTS_DIR: must be a directory"),
            (open(None, Some(&missing)), "SLIPWAY_BRIEFING_FILE: "),
            (open(None, Some(&text)), "SLIPWAY_BRIEFING_FILE: there is no {what}"),
        ];
        for (opened, expected) in table {
            let error = opened.expect_err("refused");
            assert!(error.starts_with(expected), "{error}");
        }
        fs::write(&text, "Work in {cwd}.").expect("a file");
        assert_eq!(open(None, Some(&text)), Ok(()));
    }
}
