//! Checks of a good machine, and of the same machine with one defect.

use super::*;
use crate::doctor::facts::Runtime;

fn good() -> Facts {
    Facts {
        root: true,
        kernel: "6.1.0-18-amd64".into(),
        cgroups: Cgroups::V2(["cpuset", "cpu", "memory", "pids"].map(ToOwned::to_owned).into()),
        runtimes: vec![Runtime {
            name: "crun",
            path: "/usr/bin/crun".into(),
            version: "crun version 1.8.1".into(),
        }],
        driver: None,
        engine_socket: "/var/run/docker.sock".into(),
        engine: Engine::Absent,
        max_user_namespaces: Some(65_536),
        inotify_instances: Some(1024),
        inotify_watches: Some(1_048_576),
        open_files_hard: Some(1 << 20),
        data_dir: "/var/lib/slipway".into(),
        data_free_bytes: Some(100 << 30),
        hostd: Some("/usr/bin/hostd".into()),
        runtimed: Some("/usr/bin/runtimed".into()),
    }
}

#[test]
fn nothing_is_wrong_with_a_good_machine() {
    let wrong: Vec<Check> =
        check_all(&good()).into_iter().filter(|check| check.level != Level::Fine).collect();
    assert_eq!(wrong, []);
}

#[test]
fn what_is_wrong_is_named_with_its_fix() {
    type Change = fn(&mut Facts);
    let table: [(&str, Level, Change); 17] = [
        ("root", Level::Missing, |facts| facts.root = false),
        ("kernel", Level::Warning, |facts| facts.kernel = "5.10.0".into()),
        ("kernel", Level::Missing, |facts| facts.kernel = "4.19.0-x".into()),
        ("control groups", Level::Missing, |facts| facts.cgroups = Cgroups::None),
        ("control groups", Level::Missing, |facts| facts.cgroups = Cgroups::Hybrid(vec!["pids".into()])),
        ("oci runtime", Level::Missing, |facts| facts.runtimes.clear()),
        ("oci runtime", Level::Warning, |facts| {
            facts.runtimes.clear();
            facts.engine = Engine::Answers("Docker 20.10.24".into());
        }),
        ("oci runtime", Level::Missing, |facts| {
            facts.runtimes.clear();
            facts.driver = Some("oci".into());
            facts.engine = Engine::Answers("Docker 20.10.24".into());
        }),
        ("docker", Level::Missing, |facts| {
            facts.driver = Some("docker".into());
            // The driver docker needs neither of these.
            facts.runtimes.clear();
            facts.max_user_namespaces = Some(0);
        }),
        ("docker", Level::Missing, |facts| {
            facts.driver = Some("docker".into());
            facts.engine = Engine::Silent("connection refused".into());
        }),
        ("docker", Level::Warning, |facts| facts.engine = Engine::Silent("connection refused".into())),
        ("user namespaces", Level::Missing, |facts| facts.max_user_namespaces = Some(0)),
        ("inotify", Level::Warning, |facts| facts.inotify_instances = Some(128)),
        ("open files", Level::Warning, |facts| facts.open_files_hard = Some(4096)),
        ("disk", Level::Warning, |facts| facts.data_free_bytes = Some(2 << 30)),
        ("disk", Level::Missing, |facts| facts.data_free_bytes = Some(1 << 20)),
        ("runtimed", Level::Missing, |facts| facts.runtimed = None),
    ];
    for (name, level, change) in table {
        let mut facts = good();
        change(&mut facts);
        let wrong: Vec<Check> =
            check_all(&facts).into_iter().filter(|check| check.level != Level::Fine).collect();
        let [check] = wrong.as_slice() else { panic!("{name}: {wrong:?}") };
        assert_eq!((check.name, check.level), (name, level));
        assert!(check.fix.is_some(), "{name}");
    }
}

#[test]
fn versions_of_kernels_come_in_many_spellings() {
    let table = [
        ("6.18.44-fc-v490", Some((6, 18))),
        ("5.12-rc1", Some((5, 12))),
        ("5.4.0", Some((5, 4))),
        ("", None),
    ];
    for (release, expected) in table {
        assert_eq!(version(release), expected, "{release}");
    }
}
