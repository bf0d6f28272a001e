use super::*;
use crate::core::job::RawExit;
use crate::sys::reap::wait_for;
use nix::unistd::Pid;
use protocol::CgroupVersion;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

fn recorded(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().expect("temporary directory");
    for (name, content) in files {
        fs::write(directory.path().join(name), content).expect("write");
    }
    directory
}

fn everything_in(directory: &Path, hierarchy: Hierarchy) -> Location {
    let dir = Some(ControllerDir { hierarchy, directory: directory.to_owned() });
    Location { memory: dir.clone(), pids: dir.clone(), cpu: dir }
}

fn check(hierarchy: Hierarchy, files: &[(&str, &str)], expected: &Cgroup) {
    let directory = recorded(files);
    let location = everything_in(directory.path(), hierarchy);
    assert_eq!(&read(&location), expected);
    let counters = counters(&location);
    assert_eq!(counters.oom_kills, expected.oom_kills);
    assert_eq!(counters.pids_limit_hits, expected.pids_limit_hits);
}

/// From a container on a systemd host with kernel 6.8.
const V2: &[(&str, &str)] = &[
    ("memory.current", "48861184\n"),
    ("memory.peak", "412303360\n"),
    ("memory.max", "536870912\n"),
    ("memory.events", "low 0\nhigh 0\nmax 1820\noom 3\noom_kill 2\noom_group_kill 0\n"),
    ("pids.current", "7\n"),
    ("pids.max", "512\n"),
    ("pids.events", "max 41\n"),
    (
        "cpu.stat",
        "usage_usec 184467\nuser_usec 120000\nsystem_usec 64467\ncore_sched.force_idle_usec 0\n\
         nr_periods 10\nnr_throttled 1\nthrottled_usec 900\nnr_bursts 0\nburst_usec 0\n",
    ),
];

const V1: &[(&str, &str)] = &[
    ("memory.usage_in_bytes", "48861184\n"),
    ("memory.max_usage_in_bytes", "412303360\n"),
    ("memory.limit_in_bytes", "536870912\n"),
    ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
    ("pids.current", "7\n"),
    ("pids.max", "512\n"),
    ("pids.events", "max 41\n"),
    ("cpuacct.usage", "184467999\n"),
];

fn full(version: CgroupVersion) -> Cgroup {
    Cgroup {
        version,
        cpu_usage_us: Some(184_467),
        memory_bytes: Some(48_861_184),
        memory_peak_bytes: Some(412_303_360),
        memory_limit_bytes: Some(536_870_912),
        pids: Some(7),
        pids_limit: Some(512),
        oom_kills: Some(2),
        pids_limit_hits: Some(41),
    }
}

#[test]
fn both_versions_give_the_same_numbers() {
    check(Hierarchy::V1, V1, &full(CgroupVersion::V1));
    check(Hierarchy::V2, V2, &full(CgroupVersion::V2));
}

#[test]
fn no_limit_is_no_number() {
    let (v1, v2) = (Hierarchy::V1, Hierarchy::V2);
    for (hierarchy, file, text, expected) in [
        (v1, "memory.limit_in_bytes", "9223372036854771712\n", None),
        (v1, "memory.limit_in_bytes", "9223372036854710272\n", None),
        (v1, "memory.limit_in_bytes", "18446744073709551615\n", None),
        (v1, "memory.limit_in_bytes", "1099511627776\n", Some(1 << 40)),
        (v2, "memory.max", "max\n", None),
        (v2, "memory.max", "1099511627776\n", Some(1 << 40)),
    ] {
        let directory = recorded(&[(file, text)]);
        let got = read(&everything_in(directory.path(), hierarchy)).memory_limit_bytes;
        assert_eq!(got, expected, "{hierarchy:?} {text}");
    }
    for hierarchy in [v1, v2] {
        let directory = recorded(&[("pids.max", "max\n")]);
        assert_eq!(read(&everything_in(directory.path(), hierarchy)).pids_limit, None);
    }
}

#[test]
fn what_is_absent_or_broken_is_no_number_and_the_rest_is_still_read() {
    let root_group = [("cpu.stat", "usage_usec 5\n"), ("memory.events", ""), ("pids.events", "max")];
    let expected = Cgroup { version: CgroupVersion::V2, cpu_usage_us: Some(5), ..Cgroup::default() };
    check(Hierarchy::V2, &root_group, &expected);
    let broken = [
        ("memory.current", "-1\n"),
        ("memory.peak", "\u{0}\n"),
        ("memory.events", "oom_kill\noom_kill_x 3\noom_kill  \nmax 1"),
        ("pids.current", "99999999999999999999\n"),
        ("cpu.stat", "usage_usec five\n"),
    ];
    check(Hierarchy::V2, &broken, &Cgroup { version: CgroupVersion::V2, ..Cgroup::default() });
    assert_eq!(read(&Location::default()), Cgroup::default());
    assert_eq!(counters(&Location::default()), Counters::default());
}

/// A real v1 group, removed on drop.
struct RealGroup(PathBuf);

impl RealGroup {
    fn create(controller: &str, settings: &[(&str, &str)]) -> Option<Self> {
        let parent = Path::new("/sys/fs/cgroup").join(controller);
        // Only on machines that have it; the recorded files above cover the parsing everywhere.
        parent.join("tasks").exists().then_some(())?;
        let directory = parent.join(format!("slipway-test-{}", std::process::id()));
        fs::create_dir(&directory).expect("root may");
        let group = Self(directory);
        for (file, value) in settings {
            fs::write(group.0.join(file), value).expect("setting");
        }
        Some(group)
    }

    fn dir(&self) -> ControllerDir {
        ControllerDir { hierarchy: Hierarchy::V1, directory: self.0.clone() }
    }

    /// Runs a script in the group and returns its exit.
    #[expect(clippy::zombie_processes, reason = "sys/reap.rs is the one that waits")]
    fn run(&self, script: &str) -> RawExit {
        let script = format!("echo $$ > {}/cgroup.procs && {script}", self.0.display());
        let mut command = Command::new("sh");
        let shell = command.args(["-c", &script]).stderr(Stdio::null()).spawn().expect("a shell");
        wait_for(Pid::from_raw(shell.id() as i32)).expect("it ends")
    }
}

impl Drop for RealGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_real_group_of_version_1_counts_kills_and_refused_forks() {
    let memory = RealGroup::create("memory", &[("memory.limit_in_bytes", "16777216")]);
    let pids = RealGroup::create("pids", &[("pids.max", "1")]);
    let (Some(memory), Some(pids)) = (memory, pids) else { return };
    let location = Location { memory: Some(memory.dir()), pids: Some(pids.dir()), cpu: None };
    assert_eq!(counters(&location), Counters { oom_kills: Some(0), pids_limit_hits: Some(0) });

    let killed = memory.run("exec dd if=/dev/zero of=/dev/null bs=256M count=1");
    assert_eq!(killed, RawExit::Signalled(9));
    let refused = pids.run("{ /bin/true; /bin/true; }");
    assert_ne!(refused, RawExit::Exited(0));

    let Cgroup { memory_bytes, memory_peak_bytes, memory_limit_bytes, pids, pids_limit, .. } =
        read(&location);
    assert!(memory_bytes.is_some_and(|bytes| bytes <= 16 << 20), "{memory_bytes:?}");
    assert!(memory_peak_bytes.is_some_and(|bytes| bytes > 8 << 20), "{memory_peak_bytes:?}");
    assert_eq!((memory_limit_bytes, pids, pids_limit), (Some(16 << 20), Some(0), Some(1)));
    let Counters { oom_kills, pids_limit_hits } = counters(&location);
    assert_eq!(oom_kills, Some(1));
    assert!(pids_limit_hits.is_some_and(|hits| hits >= 1), "{pids_limit_hits:?}");
}
