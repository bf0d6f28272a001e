//! Profiles of OCI runtimes: which features of crun, runc or youki are used.

use super::{
    layout::{Layout, SandboxDir},
    sealed_program::SealedProgram,
};
use crate::launcher::STDERR_PATH;
use protocol::api::SandboxId;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeKind {
    Crun(CrunFeatures),
    Runc,
    Youki,
}

/// Features of crun that the kernel and the version at hand support; each level includes the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrunFeatures {
    /// The launcher joins the control groups.
    Basic,
    Idmapped,
    IdmappedPrecompiled,
}

/// A runtime and the features that are used of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeProfile {
    pub program: PathBuf,
    pub kind: RuntimeKind,
}

impl RuntimeProfile {
    /// Profiles of a program, fastest first; the first that passes the probe is used.
    pub fn candidates(program: &Path) -> Vec<Self> {
        let program = program.to_owned();
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let profile = |kind| Self { program: program.clone(), kind };
        if name.contains("runc") {
            vec![profile(RuntimeKind::Runc)]
        } else if name.contains("youki") {
            vec![profile(RuntimeKind::Youki)]
        } else {
            [CrunFeatures::IdmappedPrecompiled, CrunFeatures::Idmapped, CrunFeatures::Basic]
                .map(|features| profile(RuntimeKind::Crun(features)))
                .to_vec()
        }
    }

    /// Whether files keep their owners on disk, through idmapped mounts. Otherwise they are given to the
    /// sandbox's ids before each launch.
    pub fn idmapped(&self) -> bool {
        self.crun_features() >= Some(CrunFeatures::Idmapped)
    }

    /// Whether the seccomp filter is passed as a compiled program; otherwise as a list that the runtime
    /// compiles at each launch.
    pub fn precompiled(&self) -> bool {
        self.crun_features() >= Some(CrunFeatures::IdmappedPrecompiled)
    }

    /// Whether the launcher joins the control groups; otherwise the runtime does.
    pub fn launcher_joins(&self) -> bool {
        self.crun_features().is_some()
    }

    fn crun_features(&self) -> Option<CrunFeatures> {
        match self.kind {
            RuntimeKind::Crun(features) => Some(features),
            RuntimeKind::Runc | RuntimeKind::Youki => None,
        }
    }

    pub fn name(&self) -> String {
        self.program.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The command that starts a sandbox and leaves it running.
    pub fn run_command(
        &self,
        sealed_program: Option<&SealedProgram>,
        layout: &Layout,
        dir: &SandboxDir,
        sandbox: &SandboxId,
    ) -> Vec<OsString> {
        let program = sealed_program.map_or_else(|| self.program.clone(), SealedProgram::path);
        let mut args: Vec<OsString> = vec![program.into()];
        args.extend(["--root".into(), layout.states().into(), "--log".into(), STDERR_PATH.into()]);
        if self.crun_features().is_some() {
            args.push("--cgroup-manager=disabled".into());
        }
        args.extend(["run".into(), "--detach".into(), "--bundle".into(), dir.bundle().into()]);
        args.extend(["--pid-file".into(), dir.pid().into(), sandbox.as_str().into()]);
        args
    }

    pub fn describe(&self) -> String {
        let mut how = vec![];
        how.push(if self.idmapped() { "idmapped mounts" } else { "files given to the sandbox's ids" });
        how.push(if self.precompiled() { "precompiled seccomp" } else { "seccomp compiled at launch" });
        format!("{} ({})", self.program.display(), how.join(", "))
    }
}
