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
    Crun,
    Runc,
    Youki,
}

/// A runtime and the features that are used of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeProfile {
    pub program: PathBuf,
    pub kind: RuntimeKind,
    /// Idmapped mounts: files keep their owners on disk. Otherwise they are given to the sandbox's ids before
    /// each launch.
    pub idmapped: bool,
    /// The seccomp filter is passed as a compiled program; otherwise as a list that the runtime compiles at
    /// each launch.
    pub precompiled: bool,
    /// The launcher joins the control groups; otherwise the runtime does.
    pub join: bool,
}

impl RuntimeProfile {
    /// Profiles of a program, fastest first; the first that passes the probe is used.
    pub fn candidates(program: &Path) -> Vec<Self> {
        let program = program.to_owned();
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let plain =
            |kind| Self { program: program.clone(), kind, idmapped: false, precompiled: false, join: false };
        if name.contains("runc") {
            vec![plain(RuntimeKind::Runc)]
        } else if name.contains("youki") {
            vec![plain(RuntimeKind::Youki)]
        } else {
            let crun = Self { join: true, ..plain(RuntimeKind::Crun) };
            let idmapped = Self { idmapped: true, ..crun.clone() };
            vec![Self { precompiled: true, ..idmapped.clone() }, idmapped, crun]
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
        if self.kind == RuntimeKind::Crun {
            args.push("--cgroup-manager=disabled".into());
        }
        args.extend(["run".into(), "--detach".into(), "--bundle".into(), dir.bundle().into()]);
        args.extend(["--pid-file".into(), dir.pid().into(), sandbox.as_str().into()]);
        args
    }

    pub fn describe(&self) -> String {
        let mut how = vec![];
        how.push(if self.idmapped { "idmapped mounts" } else { "files given to the sandbox's ids" });
        how.push(if self.precompiled { "precompiled seccomp" } else { "seccomp compiled at launch" });
        format!("{} ({})", self.program.display(), how.join(", "))
    }
}
