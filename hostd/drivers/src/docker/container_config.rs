//! Builds the create request of a sandbox's container. Pure functions.

use super::{
    super::local::{
        images::RUNTIMED_INSIDE,
        limits::{CPU_PERIOD_US, CPUS_MIN, SANDBOX_UID, SHM_PERCENT, TMP_PERCENT, VAR_TMP_PERCENT},
    },
    container_paths::{CONTROL, HOME, PUBLIC, TMP, VAR_TMP},
    engine::{CreateContainer, Healthcheck, HostConfig, LogConfig, Resources, RestartPolicy, Ulimit},
    images::PreparedImage,
    limits::{LOG_MAX_SIZE, STOP_TIMEOUT_S},
};
use hostd_core::Blueprint;
use protocol::{
    IMAGE_ENV_VARIABLE,
    api::{Limits, Network},
};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The engines' own lists, and all of /sys except the control groups: it describes the host.
const MASKED_PATHS: [&str; 41] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/block",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/devices",
    "/sys/firmware",
    "/sys/hypervisor",
    "/sys/kernel",
    "/sys/module",
    "/sys/power",
    "/sys/fs/bcachefs",
    "/sys/fs/bpf",
    "/sys/fs/btrfs",
    "/sys/fs/cifs",
    "/sys/fs/ecryptfs",
    "/sys/fs/erofs",
    "/sys/fs/ext4",
    "/sys/fs/f2fs",
    "/sys/fs/fuse",
    "/sys/fs/gfs2",
    "/sys/fs/nfs",
    "/sys/fs/nilfs2",
    "/sys/fs/ocfs2",
    "/sys/fs/orangefs",
    "/sys/fs/overlay",
    "/sys/fs/pstore",
    "/sys/fs/resctrl",
    "/sys/fs/selinux",
    "/sys/fs/smackfs",
    "/sys/fs/xfs",
    "/sys/fs/zfs",
];

/// Docker lets every user in a container bind every port; the ports where hostd listens inside must not be
/// taken by a job.
const UNPRIVILEGED_PORTS: (&str, &str) = ("net.ipv4.ip_unprivileged_port_start", "1024");

/// The seccomp profile in the two forms that engines accept.
pub struct SeccompProfile {
    /// Docker takes the profile itself.
    pub json: String,
    /// Podman takes the path of a file.
    pub path: PathBuf,
}

/// Everything that determines a container, except its labels.
pub struct ContainerConfig<'a> {
    pub blueprint: &'a Blueprint,
    pub prepared: &'a PreparedImage,
    pub hostname: &'a str,
    pub runtimed: &'a Path,
    pub workspace: &'a Path,
    pub control: &'a Path,
    pub public: &'a Path,
    /// Name of the network in the engine.
    pub network: &'a str,
    pub nofile: u64,
    /// Set where hostd has a limit itself: Podman would request more than that and fail.
    pub nproc: Option<u64>,
    pub filter: &'a SeccompProfile,
    pub podman: bool,
}

impl ContainerConfig<'_> {
    pub fn create_request(&self) -> CreateContainer {
        let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        CreateContainer {
            image: self.prepared.image.clone(),
            hostname: self.hostname.to_owned(),
            user: "0:0".to_owned(),
            env: self.env(),
            entrypoint: strings(&[RUNTIMED_INSIDE]),
            cmd: vec![],
            working_dir: "/".to_owned(),
            labels: BTreeMap::new(),
            stop_signal: "SIGTERM".to_owned(),
            stop_timeout: STOP_TIMEOUT_S,
            // A health check of the image would run in the sandbox, and not as its user.
            healthcheck: Healthcheck { test: strings(&["NONE"]) },
            network_disabled: false,
            host_config: self.host_config(),
        }
    }

    fn host_config(&self) -> HostConfig {
        let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let limits = &self.blueprint.limits;
        let memory = limits.memory_mb << 20;
        let part = |percent: u64| memory / 100 * percent;
        let tmpfs = |percent: u64| format!("rw,exec,nosuid,nodev,mode=1777,size={}", part(percent));
        // Anonymous volumes would be on the engine's disk, without any limit: use tmpfs.
        let volumes = self.prepared.requirements.volumes.iter();
        let log = [("max-size", LOG_MAX_SIZE), ("max-file", "1")];
        let ulimit = |name: &str, max: u64| Ulimit { name: name.to_owned(), soft: max, hard: max };
        HostConfig {
            binds: self.binds(),
            tmpfs: [(TMP, TMP_PERCENT), (VAR_TMP, VAR_TMP_PERCENT)]
                .into_iter()
                .chain(volumes.map(|path| (path.as_str(), TMP_PERCENT)))
                .map(|(path, percent)| (path.to_owned(), tmpfs(percent)))
                .collect(),
            readonly_rootfs: true,
            cap_drop: strings(&["ALL"]),
            cap_add: strings(&["SETUID", "SETGID", "KILL"]),
            security_opt: self.security(),
            // Podman takes them as a security option and adds its own.
            masked_paths: if self.podman { vec![] } else { strings(&MASKED_PATHS) },
            network_mode: self.network.to_owned(),
            ipc_mode: "private".to_owned(),
            pid_mode: String::new(),
            cgroupns_mode: "private".to_owned(),
            resources: resources(limits),
            shm_size: part(SHM_PERCENT),
            ulimits: [
                ("nofile", Some(self.nofile)),
                ("core", Some(0)),
                ("nproc", self.nproc.filter(|_| self.podman)),
            ]
            .into_iter()
            .filter_map(|(name, max)| Some(ulimit(name, max?)))
            .collect(),
            sysctls: BTreeMap::from([(UNPRIVILEGED_PORTS.0.to_owned(), UNPRIVILEGED_PORTS.1.to_owned())]),
            init: false,
            restart_policy: RestartPolicy { name: "no".to_owned() },
            log_config: LogConfig {
                r#type: "json-file".to_owned(),
                config: log.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            },
            runtime: self.blueprint.runtime.clone(),
            oom_score_adj: 0,
            auto_remove: false,
        }
    }

    fn security(&self) -> Vec<String> {
        let mut options = vec!["no-new-privileges".to_owned()];
        if self.podman {
            options.push(format!("seccomp={}", self.filter.path.display()));
            options.push(format!("mask={}", MASKED_PATHS.join(":")));
        } else {
            options.push(format!("seccomp={}", self.filter.json));
        }
        options
    }

    /// Bind mounts, in mount order.
    fn binds(&self) -> Vec<String> {
        let bind = |from: &Path, to: &Path, mode: &str| format!("{}:{}:{mode}", from.display(), to.display());
        let image = self.prepared.binds.iter().map(|(from, to)| bind(from, to, "ro"));
        let own = [
            (self.runtimed, RUNTIMED_INSIDE, "ro"),
            (self.workspace, HOME, "rw"),
            (self.control, CONTROL, "rw"),
            (self.public, PUBLIC, "rw"),
        ];
        image.chain(own.map(|(from, to, mode)| bind(from, Path::new(to), mode))).collect()
    }

    /// The environment of PID 1. Variables of the image must not override the user that jobs run as, or the
    /// path of the control socket.
    fn env(&self) -> Vec<String> {
        let uid = SANDBOX_UID.to_string();
        let egress = if self.blueprint.network == Network::Proxy { "proxy" } else { "none" };
        let services = if self.blueprint.is_provisioned() { "held" } else { "start" };
        let fixed = [
            ("RUNTIMED_DIR", CONTROL),
            ("RUNTIMED_PUBLIC_SOCKET", "/run/slipway/sock"),
            ("RUNTIMED_UID", &uid),
            ("RUNTIMED_GID", &uid),
            ("RUNTIMED_USER", "sandbox"),
            ("RUNTIMED_HOME", HOME),
            ("RUNTIMED_APP_DIR", "/home/sandbox/workspace/app"),
            ("RUNTIMED_LOG_BUDGET_MB", "512"),
            ("RUNTIMED_SHUTDOWN_MS", "8000"),
            ("RUNTIMED_EGRESS", egress),
            ("RUNTIMED_SERVICES", services),
            ("RUNTIMED_FAULTS", "0"),
        ];
        let known =
            |name: &&String| *name != IMAGE_ENV_VARIABLE && !fixed.iter().any(|(known, _)| known == name);
        let others = self.prepared.requirements.variables.iter().filter(known).map(|name| format!("{name}="));
        // Always ours: an image may have a variable of this name.
        let none = || format!("{IMAGE_ENV_VARIABLE}={{}}");
        let image = self.prepared.requirements.image_env.clone().unwrap_or_else(none);
        let fixed = fixed.iter().map(|(name, value)| format!("{name}={value}"));
        fixed.chain(others).chain([image]).collect()
    }
}

/// Identifies the configuration of a container. `image` is the image id that the name resolved to.
pub fn config_hash(container: &CreateContainer, image: &str) -> Result<String, serde_json::Error> {
    let mut hash = Sha256::new();
    hash.update((image.len() as u64).to_le_bytes());
    hash.update(image);
    hash.update(serde_json::to_vec(container)?);
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The limits of a container, new or running.
pub fn resources(limits: &Limits) -> Resources {
    let memory = limits.memory_mb << 20;
    Resources {
        memory,
        // Equal to `memory`: no swap.
        memory_swap: memory,
        // Not `NanoCpus`: engines refuse more CPUs than the host has.
        cpu_quota: (limits.cpus.max(CPUS_MIN) * CPU_PERIOD_US as f64).round() as u64,
        cpu_period: CPU_PERIOD_US,
        pids_limit: limits.pids,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::images::ImageRequirements, *};
    use crate::local::fixture::blueprint;

    fn container(change: impl FnOnce(&mut Blueprint)) -> CreateContainer {
        container_of(false, change)
    }

    fn container_of(podman: bool, change: impl FnOnce(&mut Blueprint)) -> CreateContainer {
        container_with(&prepared(), podman, change)
    }

    fn prepared() -> PreparedImage {
        PreparedImage {
            image: "slipway-host:1".into(),
            id: "sha256:1".into(),
            binds: vec![("/usr".into(), "/usr".into())],
            requirements: ImageRequirements {
                volumes: vec!["/data".into()],
                image_env: Some("RUNTIMED_IMAGE_ENV={\"A\":\"1\"}".into()),
                variables: vec!["RUNTIMED_UID".into(), "RUNTIMED_NEW".into()],
            },
        }
    }

    fn container_with(
        prepared: &PreparedImage,
        podman: bool,
        change: impl FnOnce(&mut Blueprint),
    ) -> CreateContainer {
        let mut blueprint = blueprint();
        change(&mut blueprint);
        let filter = SeccompProfile { json: "{}".into(), path: "/f".into() };
        let config = ContainerConfig {
            filter: &filter,
            podman,
            blueprint: &blueprint,
            prepared,
            hostname: "h",
            runtimed: Path::new("/r"),
            workspace: Path::new("/w"),
            control: Path::new("/c"),
            public: Path::new("/p"),
            network: "none",
            nofile: 20_000,
            nproc: Some(9000),
        };
        config.create_request()
    }

    #[test]
    fn a_container_is_confined_as_every_sandbox_is() {
        let made = container(|_| {});
        let host = &made.host_config;
        assert_eq!((made.user.as_str(), made.entrypoint.as_slice()), ("0:0", &["/.runtimed".to_owned()][..]));
        assert_eq!(
            (host.cap_drop.join(" "), host.cap_add.join(" ")),
            ("ALL".into(), "SETUID SETGID KILL".into())
        );
        assert_eq!(host.security_opt, ["no-new-privileges", "seccomp={}"]);
        assert!(
            ["/proc/kcore", "/sys/kernel"].iter().all(|path| host.masked_paths.iter().any(|p| p == path))
        );
        assert!(host.readonly_rootfs && !host.auto_remove && !host.init);
        let given = &host.resources;
        assert_eq!((given.memory, given.memory_swap, given.pids_limit), (512 << 20, 512 << 20, 256));
        assert_eq!((given.cpu_quota, given.cpu_period), (10_000, 100_000));
        assert_eq!(host.sysctls["net.ipv4.ip_unprivileged_port_start"], "1024");
        assert_eq!(host.ulimits[0], Ulimit { name: "nofile".into(), soft: 20_000, hard: 20_000 });
        assert_eq!(host.ulimits.len(), 2);
        assert_eq!(host.cgroupns_mode, "private");
        assert!(host.tmpfs["/data"].contains("size=268435450"), "a volume has a size");
        assert_eq!(host.restart_policy.name, "no");
        assert_eq!(made.healthcheck.test, ["NONE"]);
        assert!(host.tmpfs["/tmp"].contains("exec") && host.tmpfs["/tmp"].contains("size=268435450"));
        assert_eq!(
            host.binds,
            [
                "/usr:/usr:ro",
                "/r:/.runtimed:ro",
                "/w:/home/sandbox:rw",
                "/c:/run/runtimed:rw",
                "/p:/run/slipway:rw"
            ]
        );
    }

    #[test]
    fn more_processors_than_an_engine_has_are_only_a_quota() {
        let made = container(|blueprint| blueprint.limits.cpus = 4096.0);
        let sent = serde_json::to_value(&made).expect("JSON");
        assert!(sent["HostConfig"].get("NanoCpus").is_none());
        assert_eq!(
            (&sent["HostConfig"]["CpuQuota"], &sent["HostConfig"]["CpuPeriod"]),
            (&409_600_000.into(), &100_000.into())
        );
    }

    #[test]
    fn podman_gets_the_same_settings_in_its_own_form() {
        let host = container_of(true, |_| {}).host_config;
        assert_eq!(host.ulimits[2], Ulimit { name: "nproc".into(), soft: 9000, hard: 9000 });
        assert_eq!(host.security_opt[..2], ["no-new-privileges", "seccomp=/f"]);
        assert!(host.security_opt[2].starts_with("mask=/proc/acpi:"), "{}", host.security_opt[2]);
        assert!(host.masked_paths.is_empty());
    }

    #[test]
    fn an_image_cannot_override_the_environment_of_pid_1() {
        let made = container(|blueprint| blueprint.network = Network::Proxy);
        for expected in [
            "RUNTIMED_UID=1000",
            "RUNTIMED_DIR=/run/runtimed",
            "RUNTIMED_EGRESS=proxy",
            "RUNTIMED_SERVICES=start",
            "RUNTIMED_FAULTS=0",
            "RUNTIMED_NEW=",
            "RUNTIMED_IMAGE_ENV={\"A\":\"1\"}",
        ] {
            assert!(made.env.iter().any(|pair| pair == expected), "{expected}");
        }
        assert!(!made.env.contains(&"RUNTIMED_UID=".to_owned()));
    }

    #[test]
    fn an_image_without_variables_cannot_set_those_of_jobs() {
        let mut prepared = prepared();
        prepared.requirements.image_env = None;
        prepared.requirements.variables = vec![IMAGE_ENV_VARIABLE.to_owned()];
        let made = container_with(&prepared, false, |_| {});
        let of_image: Vec<_> = made.env.iter().filter(|pair| pair.starts_with(IMAGE_ENV_VARIABLE)).collect();
        assert_eq!(of_image, ["RUNTIMED_IMAGE_ENV={}"]);
    }

    #[test]
    fn every_change_of_the_configuration_changes_the_hash() {
        let of = |container: &CreateContainer, image: &str| config_hash(container, image).expect("JSON");
        let first = of(&container(|_| {}), "sha256:1");
        assert_eq!(first, of(&container(|_| {}), "sha256:1"));
        assert_ne!(first, of(&container(|_| {}), "sha256:2"));
        assert_ne!(first, of(&container(|blueprint| blueprint.limits.pids = 17), "sha256:1"));
        assert_ne!(first, of(&container(|blueprint| blueprint.network = Network::Proxy), "sha256:1"));
    }
}
