//! /proc as it looks on known hosts, with the mount points moved below a temporary directory.

use super::*;
use proptest::prelude::proptest;
use std::fs;
use tempfile::TempDir;

/// Creates empty files and returns their root directory.
fn tree(files: &[&str]) -> TempDir {
    let root = tempfile::tempdir().expect("temporary directory");
    for file in files {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().expect("below the root")).expect("directories");
        fs::write(path, "").expect("file");
    }
    root
}

/// `expected` is memory, pids and cpu, as `v1:path below the root`. `@` stands for the root.
fn check(why: &str, files: &[&str], cgroup: &str, mountinfo: &str, expected: [&str; 3]) {
    let root = tree(files);
    let base = root.path().display().to_string();
    let located = locate_in(cgroup, &mountinfo.replace('@', &base));
    let shown = |dir: &Option<ControllerDir>| match dir {
        None => "none".to_owned(),
        Some(ControllerDir { hierarchy, directory }) => {
            let below = directory.strip_prefix(root.path()).expect("below the root").display();
            format!("{hierarchy:?}:{below}")
        }
    };
    assert_eq!([&located.memory, &located.pids, &located.cpu].map(shown), expected, "{why}");
}

const V2_FILES: [&str; 3] = ["memory.current", "pids.current", "cpu.stat"];

fn v2_files(below: &str) -> Vec<String> {
    V2_FILES.iter().map(|file| format!("{below}/{file}")).collect()
}

#[test]
fn version_2_hosts_where_our_group_is_seen() {
    for (why, group, mount, files, expected) in [
        (
            "containerd with a cgroup namespace: our group is the root of what is mounted",
            "0::/\n",
            "1026 1017 0:27 / @/sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate,memory_recursiveprot\n",
            v2_files("sys/fs/cgroup"),
            "V2:sys/fs/cgroup",
        ),
        (
            "systemd, no namespace: a scope below the one mount",
            "0::/user.slice/user-1000.slice/session-3.scope\n",
            "35 24 0:30 / @/sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
            v2_files("sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope"),
            "V2:sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope",
        ),
        (
            "docker with the host's namespace: the subtree is bound",
            "0::/system.slice/docker-ab12.scope\n",
            "612 600 0:30 /system.slice/docker-ab12.scope @/sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n",
            v2_files("sys/fs/cgroup"),
            "V2:sys/fs/cgroup",
        ),
        (
            "the subtree is bound and we were moved into a child of it",
            "0::/system.slice/docker-ab12.scope/init\n",
            "612 600 0:30 /system.slice/docker-ab12.scope @/sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n",
            v2_files("sys/fs/cgroup/init"),
            "V2:sys/fs/cgroup/init",
        ),
        (
            "a group with a colon and a blank in its path",
            "0::/a:b/c d\n",
            "612 600 0:30 /a:b @/sys\\040fs/cgroup ro shared:1 master:2 - cgroup2 cgroup rw\n",
            v2_files("sys fs/cgroup/c d"),
            "V2:sys fs/cgroup/c d",
        ),
        (
            "the mount is hidden below another one and has no files",
            "0::/\n",
            "1 0 0:27 / @/hidden ro - cgroup2 cgroup rw\n2 0 0:27 / @/sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            v2_files("sys/fs/cgroup"),
            "V2:sys/fs/cgroup",
        ),
    ] {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        check(why, &files, group, mount, [expected; 3]);
    }
}

#[test]
fn version_2_hosts_where_it_is_not() {
    for (why, group, mount, files) in [
        (
            "the subtree of another group is bound",
            "0::/ours\n",
            "1 0 0:27 /other @/sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            v2_files("sys/fs/cgroup"),
        ),
        (
            "a name that only starts like ours",
            "0::/ours-not\n",
            "1 0 0:27 /ours @/sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            v2_files("sys/fs/cgroup"),
        ),
        (
            "our group lies outside of our namespace",
            "0::/../ours\n",
            "1 0 0:27 / @/sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            v2_files("sys/fs/ours"),
        ),
        (
            "the mount was made in another namespace",
            "0::/\n",
            "1 0 0:27 /../.. @/sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            v2_files("sys/fs/cgroup"),
        ),
        ("nothing is mounted", "0::/\n", "22 27 0:21 / @/proc rw - proc proc rw\n", vec![]),
    ] {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        check(why, &files, group, mount, ["none"; 3]);
    }
}

#[test]
fn version_1_with_all_controllers_in_a_container() {
    let cgroup = "12:memory:/docker/ab12\n\
                  8:cpu,cpuacct:/docker/ab12\n\
                  5:pids:/docker/ab12\n\
                  1:name=systemd:/docker/ab12\n\
                  0::/system.slice/containerd.service\n";
    let mounts = |root: &str| {
        format!(
            "700 690 0:30 {root} @/cg/systemd ro master:11 - cgroup cgroup rw,xattr,name=systemd\n\
             701 690 0:33 {root} @/cg/memory ro,nosuid,nodev,noexec,relatime master:15 - cgroup cgroup rw,memory\n\
             702 690 0:34 {root} @/cg/cpu,cpuacct ro master:16 - cgroup cgroup rw,cpu,cpuacct\n\
             703 690 0:35 {root} @/cg/pids ro master:17 - cgroup cgroup rw,pids\n"
        )
    };
    let files = ["cg/memory/memory.usage_in_bytes", "cg/cpu,cpuacct/cpuacct.usage", "cg/pids/pids.current"];
    let bound = ["V1:cg/memory", "V1:cg/pids", "V1:cg/cpu,cpuacct"];
    check("bound subtrees", &files, cgroup, &mounts("/docker/ab12"), bound);
    check("own namespace", &files, &cgroup.replace("/docker/ab12", "/"), &mounts("/"), bound);

    let below = ["cg/memory/docker/ab12/x", "cg/cpu,cpuacct/docker/ab12/x", "cg/pids/docker/ab12/x"];
    let whole = ["V1:cg/memory/docker/ab12", "V1:cg/pids/docker/ab12", "V1:cg/cpu,cpuacct/docker/ab12"];
    check("whole hierarchies", &below, cgroup, &mounts("/"), whole);
    check("directories that do not exist", &[], cgroup, &mounts("/"), ["none"; 3]);
}

#[test]
fn in_a_hybrid_a_controller_of_version_1_wins_and_version_2_only_counts_with_its_files() {
    let cgroup = "4:memory:/box\n2:cpuacct:/\n0::/\n";
    let mounts = "33 31 0:30 / @/cg/cpuacct rw,relatime - cgroup cgroup rw,cpuacct\n\
                  35 31 0:32 / @/cg/memory rw,relatime - cgroup cgroup rw,memory\n\
                  41 31 0:38 / @/cg/unified rw,relatime - cgroup2 cgroup2 rw\n";
    let v1 = ["cg/cpuacct/cpuacct.usage", "cg/memory/box/memory.usage_in_bytes"];
    let empty_v2 = [&v1[..], &["cg/unified/cpu.stat"]].concat();
    check(
        "as on a Firecracker guest",
        &empty_v2,
        cgroup,
        mounts,
        ["V1:cg/memory/box", "none", "V1:cg/cpuacct"],
    );
    let with_pids = [&empty_v2[..], &["cg/unified/pids.current", "cg/unified/memory.current"]].concat();
    let expected = ["V1:cg/memory/box", "V2:cg/unified", "V1:cg/cpuacct"];
    check("pids in v2", &with_pids, cgroup, mounts, expected);
}

#[test]
fn the_version_is_named_after_where_the_controllers_are() {
    let dir = |hierarchy| Some(ControllerDir { hierarchy, directory: PathBuf::from("/x") });
    let (v1, v2) = (dir(Hierarchy::V1), dir(Hierarchy::V2));
    for (memory, pids, cpu, expected) in [
        (None, None, None, CgroupVersion::None),
        (v2.clone(), v2.clone(), v2.clone(), CgroupVersion::V2),
        (None, None, v2.clone(), CgroupVersion::V2),
        (v2.clone(), v2, v1.clone(), CgroupVersion::V1),
        (v1, None, None, CgroupVersion::V1),
    ] {
        let location = Location { memory, pids, cpu };
        assert_eq!(location.version(), expected, "{location:?}");
    }
}

#[test]
fn a_location_survives_being_handed_on_as_json() {
    let dir =
        ControllerDir { hierarchy: Hierarchy::V1, directory: PathBuf::from("/sys/fs/cgroup/memory/a b") };
    let location = Location { memory: Some(dir), pids: None, cpu: None };
    let json = serde_json::to_string(&location).expect("plain data");
    let expected =
        r#"{"memory":{"hierarchy":"v1","directory":"/sys/fs/cgroup/memory/a b"},"pids":null,"cpu":null}"#;
    assert_eq!(json, expected);
    assert_eq!(serde_json::from_str::<Location>(&json).expect("the same"), location);
}

#[test]
fn octal_escapes_are_undone_and_others_left() {
    for (field, expected) in [
        ("/a", "/a"),
        ("/a\\040b\\011c\\134d", "/a b\tc\\d"),
        ("/a\\04", "/a\\04"),
        ("/a\\999", "/a\\999"),
        ("/a\\777", "/a\\777"),
        ("\\", "\\"),
        ("/\\303\\251", "/é"),
        ("/\\377", "/\u{fffd}"),
    ] {
        assert_eq!(unescape(field), expected, "{field}");
    }
}

#[test]
fn this_machine_can_be_asked() {
    // The result depends on the machine, but must not name a missing directory.
    let location = locate();
    for dir in [&location.memory, &location.pids, &location.cpu].into_iter().flatten() {
        assert!(dir.directory.is_dir(), "{location:?}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(cgroup: String, mountinfo: String, field in r"[\\0-7é]{0,12}") {
        let _ = locate_in(&cgroup, &mountinfo);
        let _ = unescape(&field);
    }
}
