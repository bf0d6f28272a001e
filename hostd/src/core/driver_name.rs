//! Names of drivers that people know and ask for, and that hostd has none for.

/// A name that people ask for, and what they get instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsupported {
    pub name: &'static str,
    /// Another spelling of it.
    also: &'static [&'static str],
    pub why: &'static str,
}

/// As they are listed.
pub const UNSUPPORTED: [Unsupported; 7] = [
    Unsupported {
        name: "podman",
        also: &["libpod"],
        why: "Podman speaks Docker's API: use the driver docker, with SLIPWAY_DOCKER_SOCKET=/run/podman/podman.sock",
    },
    Unsupported {
        name: "kubernetes",
        also: &["k8s", "k3s"],
        why: "clusters are not supported yet: run hostd on each machine, with the driver oci or docker",
    },
    Unsupported {
        name: "containerd",
        also: &["nerdctl", "cri-o", "crio"],
        why: "containerd and CRI-O are not driven by themselves: use oci, which needs no daemon, or docker",
    },
    Unsupported {
        name: "gvisor",
        also: &["runsc"],
        why: "hostd can neither see the PID 1 of a gVisor sandbox nor enter its network: use the driver oci or docker",
    },
    Unsupported {
        name: "kata",
        also: &["kata-runtime", "kata-containers"],
        why: "hostd can neither see the PID 1 of a Kata sandbox nor enter its network: use the driver oci or docker",
    },
    Unsupported {
        name: "firecracker",
        also: &["microvm", "cloud-hypervisor", "qemu"],
        why: "sandboxes are containers, and virtual machines are not supported: use the driver oci or docker",
    },
    Unsupported {
        name: "lima",
        also: &["colima", "vz", "wsl", "wsl2"],
        why: "hostd does not start virtual machines: run hostd inside the Linux machine, with the driver oci or docker",
    },
];

/// Why a name that people know is none of ours.
pub fn unsupported(name: &str) -> Option<&'static Unsupported> {
    let name = name.to_ascii_lowercase();
    UNSUPPORTED.iter().find(|known| known.name == name || known.also.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_name_says_what_to_use_instead() {
        for (name, expected) in [
            ("lima", Some("lima")),
            ("K8s", Some("kubernetes")),
            ("runsc", Some("gvisor")),
            ("podman", Some("podman")),
            ("oci", None),
            ("docker", None),
            ("nonsense", None),
        ] {
            assert_eq!(unsupported(name).map(|known| known.name), expected, "{name}");
        }
        for known in UNSUPPORTED {
            assert!(["oci", "docker"].iter().any(|ours| known.why.contains(ours)), "{known:?}");
        }
    }
}
