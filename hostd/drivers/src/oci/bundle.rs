//! `config.json` of an OCI bundle. Pure functions.

use super::{
    images::RUNTIMED_INSIDE,
    limits::{CPU_PERIOD_US, CPUS_MIN, UID_RANGE},
    mounts::SandboxMounts,
    runtime_profile::RuntimeProfile,
    seccomp::{self, SeccompError},
};
use oci_spec::{
    OciSpecError,
    runtime::{
        Capability, Linux, LinuxBuilder, LinuxCapabilitiesBuilder, LinuxCpuBuilder, LinuxDeviceCgroup,
        LinuxDeviceCgroupBuilder, LinuxDeviceType, LinuxIdMapping, LinuxIdMappingBuilder, LinuxMemoryBuilder,
        LinuxNamespace, LinuxNamespaceBuilder, LinuxNamespaceType, LinuxPidsBuilder, LinuxResources,
        LinuxResourcesBuilder, PosixRlimitBuilder, PosixRlimitType, Process, ProcessBuilder, RootBuilder,
        SpecBuilder,
    },
};
use protocol::api::Limits;
use std::collections::{HashMap, HashSet};

/// Docker's list; /sys is not mounted and needs no masking.
const MASKED: [&str; 10] = [
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
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];
/// A variable of PID 1: how jobs reach the network.
const EGRESS_PROXY: &str = "RUNTIMED_EGRESS=proxy";
/// A variable of PID 1: services wait until hostd has set its own.
const SERVICES_HELD: &str = "RUNTIMED_SERVICES=held";
/// Annotation in which crun takes a compiled filter.
const BPF_ANNOTATION: &str = "run.oci.seccomp_bpf_data";

/// Everything that determines a bundle.
pub struct Bundle<'a> {
    pub profile: &'a RuntimeProfile,
    pub mounts: SandboxMounts<'a>,
    pub hostname: &'a str,
    pub uid_base: u32,
    pub limits: &'a Limits,
    pub nofile: u64,
    /// Whether jobs get hostd's proxy.
    pub proxy: bool,
    /// Whether services wait for the provisioning.
    pub services_held: bool,
    /// Variables of the image, for jobs, as PID 1 takes them.
    pub image_env: Option<String>,
    /// For runtimes that join the control groups themselves.
    pub cgroups_path: String,
    /// The compiled filter.
    pub filter: &'a str,
}

impl Bundle<'_> {
    pub fn config(&self) -> Result<Vec<u8>, SeccompError> {
        let mut annotations = HashMap::new();
        if self.profile.precompiled() {
            annotations.insert(BPF_ANNOTATION.to_owned(), self.filter.to_owned());
        }
        let root =
            RootBuilder::default().path(self.mounts.rootfs.tree.mounted_at()).readonly(true).build()?;
        let spec = SpecBuilder::default()
            .version("1.0.2")
            .root(root)
            .mounts(self.mounts.mounts()?)
            .process(self.process()?)
            .hostname(self.hostname)
            .linux(self.linux()?)
            .annotations(annotations)
            .build()?;
        Ok(serde_json::to_vec(&spec).map_err(OciSpecError::from)?)
    }

    /// The process of runtimed: root of its user namespace, able to start processes as another user and to
    /// kill them.
    fn process(&self) -> Result<Process, OciSpecError> {
        let allowed: HashSet<Capability> =
            [Capability::Setuid, Capability::Setgid, Capability::Kill].into_iter().collect();
        let none: HashSet<Capability> = HashSet::new();
        let capabilities = LinuxCapabilitiesBuilder::default()
            .bounding(allowed.clone())
            .permitted(allowed.clone())
            .effective(allowed)
            .inheritable(none.clone())
            .ambient(none)
            .build()?;
        let nofile = PosixRlimitBuilder::default()
            .typ(PosixRlimitType::RlimitNofile)
            .hard(self.nofile)
            .soft(self.nofile)
            .build()?;
        let core =
            PosixRlimitBuilder::default().typ(PosixRlimitType::RlimitCore).hard(0u64).soft(0u64).build()?;
        ProcessBuilder::default()
            .terminal(false)
            .args(vec![RUNTIMED_INSIDE.to_owned()])
            .env(self.variables())
            .cwd("/")
            .capabilities(capabilities)
            .rlimits(vec![nofile, core])
            .no_new_privileges(true)
            .build()
    }

    fn variables(&self) -> Vec<String> {
        let egress = self.proxy.then(|| EGRESS_PROXY.to_owned());
        let held = self.services_held.then(|| SERVICES_HELD.to_owned());
        egress.into_iter().chain(held).chain(self.image_env.clone()).collect()
    }

    fn linux(&self) -> Result<Linux, SeccompError> {
        let ids = vec![self.ids()?];
        let text = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let mut linux = LinuxBuilder::default()
            .uid_mappings(ids.clone())
            .gid_mappings(ids)
            .namespaces(namespaces()?)
            .masked_paths(text(&MASKED))
            .readonly_paths(text(&READ_ONLY));
        if !self.profile.launcher_joins() {
            linux = linux.cgroups_path(&self.cgroups_path).resources(self.resources()?);
        }
        if !self.profile.precompiled() {
            linux = linux.seccomp(seccomp::oci_profile()?);
        }
        let mut linux = linux.build()?;
        if self.profile.launcher_joins() {
            linux.set_resources(None);
        }
        Ok(linux)
    }

    fn ids(&self) -> Result<LinuxIdMapping, OciSpecError> {
        LinuxIdMappingBuilder::default().container_id(0u32).host_id(self.uid_base).size(UID_RANGE).build()
    }

    /// The limits that are also written into the groups: a runtime that joins them would set its own.
    fn resources(&self) -> Result<LinuxResources, OciSpecError> {
        let memory_bytes = (self.limits.memory_mb << 20) as i64;
        let memory = LinuxMemoryBuilder::default().limit(memory_bytes).build()?;
        let quota = (self.limits.cpus.max(CPUS_MIN) * CPU_PERIOD_US as f64).round() as i64;
        let cpu = LinuxCpuBuilder::default().quota(quota).period(CPU_PERIOD_US).build()?;
        let pids = LinuxPidsBuilder::default().limit(self.limits.pids as i64).build()?;
        LinuxResourcesBuilder::default().memory(memory).cpu(cpu).pids(pids).devices(devices()?).build()
    }
}

fn namespaces() -> Result<Vec<LinuxNamespace>, OciSpecError> {
    [
        LinuxNamespaceType::User,
        LinuxNamespaceType::Pid,
        LinuxNamespaceType::Mount,
        LinuxNamespaceType::Network,
        LinuxNamespaceType::Ipc,
        LinuxNamespaceType::Uts,
        LinuxNamespaceType::Cgroup,
    ]
    .into_iter()
    .map(|kind| LinuxNamespaceBuilder::default().typ(kind).build())
    .collect()
}

/// Denies all devices; runtimes add the harmless ones by themselves.
fn devices() -> Result<Vec<LinuxDeviceCgroup>, OciSpecError> {
    let none =
        LinuxDeviceCgroupBuilder::default().allow(false).typ(LinuxDeviceType::A).access("rwm").build()?;
    Ok(vec![none])
}

#[cfg(test)]
pub mod tests;
