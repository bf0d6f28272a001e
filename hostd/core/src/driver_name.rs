//! Driver names that users may ask for and hostd does not support.

/// An unsupported driver, and what to use instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsupportedDriver {
    pub name: &'static str,
    /// Other names of it.
    aliases: &'static [&'static str],
    pub reason: &'static str,
}

/// In the order in which they are listed.
pub const UNSUPPORTED_DRIVERS: [UnsupportedDriver; 7] = [
    UnsupportedDriver {
        name: "podman",
        aliases: &["libpod"],
        reason: "Podman speaks Docker's API: use the driver docker, with SLIPWAY_DOCKER_SOCKET=/run/podman/podman.sock",
    },
    UnsupportedDriver {
        name: "kubernetes",
        aliases: &["k8s", "k3s"],
        reason: "clusters are not supported yet: run hostd on each machine, with the driver oci or docker",
    },
    UnsupportedDriver {
        name: "containerd",
        aliases: &["nerdctl", "cri-o", "crio"],
        reason: "containerd and CRI-O are not driven by themselves: use oci, which needs no daemon, or docker",
    },
    UnsupportedDriver {
        name: "gvisor",
        aliases: &["runsc"],
        reason: "hostd can neither see the PID 1 of a gVisor sandbox nor enter its network: use the driver oci or docker",
    },
    UnsupportedDriver {
        name: "kata",
        aliases: &["kata-runtime", "kata-containers"],
        reason: "hostd can neither see the PID 1 of a Kata sandbox nor enter its network: use the driver oci or docker",
    },
    UnsupportedDriver {
        name: "firecracker",
        aliases: &["microvm", "cloud-hypervisor", "qemu"],
        reason: "sandboxes are containers, and virtual machines are not supported: use the driver oci or docker",
    },
    UnsupportedDriver {
        name: "lima",
        aliases: &["colima", "vz", "wsl", "wsl2"],
        reason: "hostd does not start virtual machines: run hostd inside the Linux machine, with the driver oci or docker",
    },
];

/// Finds an unsupported driver by name or alias.
pub fn unsupported_driver(name: &str) -> Option<&'static UnsupportedDriver> {
    let name = name.to_ascii_lowercase();
    UNSUPPORTED_DRIVERS.iter().find(|known| known.name == name || known.aliases.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsupported_driver_says_what_to_use_instead() {
        for (name, expected) in [
            ("lima", Some("lima")),
            ("K8s", Some("kubernetes")),
            ("runsc", Some("gvisor")),
            ("podman", Some("podman")),
            ("oci", None),
            ("docker", None),
            ("nonsense", None),
        ] {
            assert_eq!(unsupported_driver(name).map(|known| known.name), expected, "{name}");
        }
        for known in UNSUPPORTED_DRIVERS {
            assert!(["oci", "docker"].iter().any(|ours| known.reason.contains(ours)), "{known:?}");
        }
    }
}
