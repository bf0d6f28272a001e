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
pub enum Members {
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
pub fn lives_elsewhere(launched_in: Option<PidNamespace>, own: PidNamespace, members: Members) -> bool {
    match (members, launched_in) {
        (Members::None, _) => false,
        (Members::Listed | Members::Hidden | Members::Counted | Members::Launching, Some(namespace)) => {
            namespace != own
        }
        (Members::Hidden, None) => true,
        (Members::Listed | Members::Counted | Members::Launching, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_live_processes_of_another_namespace_live_elsewhere() {
        let (own, other) = (PidNamespace(1), PidNamespace(2));
        for (members, unknown, same, another) in [
            (Members::None, false, false, false),
            (Members::Listed, false, false, true),
            (Members::Hidden, true, false, true),
            (Members::Counted, false, false, true),
            (Members::Launching, false, false, true),
        ] {
            for (launched_in, expected) in [(None, unknown), (Some(own), same), (Some(other), another)] {
                let found = lives_elsewhere(launched_in, own, members);
                assert_eq!(found, expected, "{members:?} of one launched in {launched_in:?}");
            }
        }
    }
}
