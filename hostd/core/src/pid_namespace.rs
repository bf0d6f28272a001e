//! Which PID namespace the processes of a sandbox are in, relative to hostd's. From another one PID 1 is not
//! visible, and must not be taken for dead.

use serde::{Deserialize, Serialize};

/// A PID namespace of this machine, by its inode in nsfs. A process keeps all namespaces above its own alive,
/// so the number is not reused while the sandbox has a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PidNamespace(pub u64);

/// Visibility of the processes of a sandbox whose PID 1 was not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxProcesses {
    None,
    /// Visible with pids in hostd's namespace; or only reported as running by the backend.
    Listed,
    /// The kernel lists them as pid 0: they have no pid in hostd's namespace.
    Hidden,
    /// The kernel counts some and lists none (cgroup v1): hidden, or exited and not reaped yet.
    Counted,
    /// A launch is in progress.
    Launching,
}

/// Whether a sandbox runs in another PID namespace than hostd. `launched_in` is the namespace of the last
/// launch, from the badge; badges of an earlier hostd lack it.
pub fn is_in_other_namespace(
    launched_in: Option<PidNamespace>,
    own: PidNamespace,
    members: SandboxProcesses,
) -> bool {
    match (members, launched_in) {
        (SandboxProcesses::None, _) => false,
        (
            SandboxProcesses::Listed
            | SandboxProcesses::Hidden
            | SandboxProcesses::Counted
            | SandboxProcesses::Launching,
            Some(namespace),
        ) => namespace != own,
        (SandboxProcesses::Hidden, None) => true,
        (SandboxProcesses::Listed | SandboxProcesses::Counted | SandboxProcesses::Launching, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_live_processes_of_another_namespace_count_as_there() {
        let (own, other) = (PidNamespace(1), PidNamespace(2));
        for (members, unknown, same, another) in [
            (SandboxProcesses::None, false, false, false),
            (SandboxProcesses::Listed, false, false, true),
            (SandboxProcesses::Hidden, true, false, true),
            (SandboxProcesses::Counted, false, false, true),
            (SandboxProcesses::Launching, false, false, true),
        ] {
            for (launched_in, expected) in [(None, unknown), (Some(own), same), (Some(other), another)] {
                let found = is_in_other_namespace(launched_in, own, members);
                assert_eq!(found, expected, "{members:?} of one launched in {launched_in:?}");
            }
        }
    }
}
