//! Programs that the sandbox's user can run, found in the search path of jobs.

use super::execs::Refusal;
use super::main_loop::Supervisor;
use super::tasks::refuse;
use crate::sys::programs;
use protocol::{EnvMap, ErrorCode, ProgramsView};
use std::path::PathBuf;

impl Supervisor {
    pub(super) fn find_programs(&self, names: Vec<String>) -> Result<ProgramsView, Refusal> {
        let environment = self.context.environment(&EnvMap::new(), false);
        let path = environment.into_iter().find(|(name, _)| name == "PATH").map(|(_, value)| value);
        let directories: Vec<PathBuf> = path
            .unwrap_or_default()
            .split(':')
            .filter(|dir| dir.starts_with('/'))
            .map(PathBuf::from)
            .collect();
        let found = programs::find(self.context.config.identity(), &directories, names);
        let failed = |error| refuse(ErrorCode::Internal, format!("could not {error}"));
        Ok(ProgramsView { found: found.map_err(failed)? })
    }
}
