//! Names that a snapshot leaves out.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::path::Path;

/// Patterns of what is left out: a name, as in `node_modules`, at any depth, or a path from the home directory, as in
/// `workspace/app/dist`; `*`, `?` and `**` as in a shell.
#[derive(Debug, Default)]
pub struct Excludes {
    names: GlobSet,
    paths: GlobSet,
}

impl Excludes {
    pub fn parse(patterns: &[String]) -> Result<Self, String> {
        let (mut names, mut paths) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for pattern in patterns {
            let glob = GlobBuilder::new(pattern.trim_end_matches('/')).literal_separator(true).build();
            let glob = glob.map_err(|error| error.to_string())?;
            match pattern.trim_end_matches('/').contains('/') {
                true => paths.add(glob),
                false => names.add(glob),
            };
        }
        let build = |set: GlobSetBuilder| set.build().map_err(|error| error.to_string());
        Ok(Self { names: build(names)?, paths: build(paths)? })
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.paths.is_empty()
    }

    /// Whether an entry is left out, with all below it. `path` is relative to the top of the workspace.
    pub fn matches(&self, path: &Path) -> bool {
        let name = path.file_name().map(Path::new);
        name.is_some_and(|name| self.names.is_match(name)) || self.paths.is_match(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_matches_at_any_depth_and_a_path_from_the_top() {
        let patterns = ["node_modules", "*.log", "workspace/app/dist/"].map(str::to_owned);
        let excludes = Excludes::parse(&patterns).expect("good patterns");
        for (path, left_out) in [
            ("workspace/app/node_modules", true),
            ("node_modules", true),
            ("workspace/app/npm.log", true),
            ("workspace/app/dist", true),
            ("workspace/other/dist", false),
            ("workspace/app/src/main.rs", false),
        ] {
            assert_eq!(excludes.matches(Path::new(path)), left_out, "{path}");
        }
        assert!(Excludes::parse(&["[".to_owned()]).is_err());
        assert!(Excludes::default().is_empty() && !excludes.is_empty());
    }
}
