//! Which PID namespace the processes of a sandbox live in, as hostd sees it from its own. From another one its
//! PID 1 is not to be found, and must not be taken for dead.

use serde::{Deserialize, Serialize};

/// A PID namespace of this machine, by its number in nsfs. A process keeps the namespaces above its own alive, so
/// the number means no other one while the sandbox has a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PidNamespace(pub u64);

/// The processes of a sandbox whose PID 1 was not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxProcesses {
    None,
    /// With numbers in hostd's own namespace; or only the backend's word that they run.
    Listed,
    /// The kernel lists them as 0: they have no number in hostd's own namespace.
    Hidden,
    /// The kernel counts some and lists none (version 1 of control groups): hidden, or ended and not reaped yet.
    Counted,
    /// A launch is under way.
    Launching,
}

/// Whether a sandbox lives in another PID namespace than hostd. `launched_in`: where it was launched last, as its
/// badge says; badges of an earlier hostd do not.
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
    fn only_live_processes_of_another_namespace_live_elsewhere() {
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
