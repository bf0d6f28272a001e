//! Checks `/proc/<pid>/mountinfo` of a container: our mounts at their paths, and nothing above, below or over
//! them. Mount points are listed there with symlinks resolved.

use super::super::{
    super::local::images::RUNTIMED_INSIDE,
    container_paths::{OUR_MOUNTS, TMPFS_MOUNTS, is_below},
};

/// Podman mounts a tmpfs over the parent of two of our mounts; only root may write there.
const PODMAN_RUN: &str = "/run";

struct Mount<'a> {
    point: &'a str,
    read_only: bool,
    kind: &'a str,
}

/// The first mismatch, if any. Lines that cannot be parsed are one.
pub fn find_mismatch(mountinfo: &str, podman: bool) -> Option<String> {
    let Some(mounts) = mountinfo.lines().map(parse).collect::<Option<Vec<Mount<'_>>>>() else {
        return Some("its mounts are not understood".to_owned());
    };
    let at = |point: &str| mounts.iter().filter(|mount| mount.point == point).collect::<Vec<_>>();
    match at("/")[..] {
        [root] if root.read_only => {}
        _ => return Some("its root is not read-only".to_owned()),
    }
    for path in OUR_MOUNTS {
        match at(path)[..] {
            [mount] if TMPFS_MOUNTS.contains(&path) && mount.kind != "tmpfs" => {
                return Some(format!("its {path} is not in memory"));
            }
            [mount] if path == RUNTIMED_INSIDE && !mount.read_only => {
                return Some(format!("its {path} can be written"));
            }
            [_] => {}
            [] => return Some(format!("nothing is mounted at its {path}: is a part of that a link?")),
            _ => return Some(format!("something else is mounted at its {path}")),
        }
        for mount in &mounts {
            if is_below(mount.point, path) {
                return Some(format!("{} is mounted in its {path}", mount.point));
            }
            let above = mount.point != "/" && is_below(path, mount.point);
            let is_podman_run = podman && mount.point == PODMAN_RUN && mount.kind == "tmpfs";
            if above && !(is_podman_run && at(PODMAN_RUN).len() == 1) {
                return Some(format!("something is mounted at its {}", mount.point));
            }
        }
    }
    None
}

/// `36 35 98:0 /root /point ro,noatime master:1 - ext3 /dev/root rw`
fn parse(line: &str) -> Option<Mount<'_>> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(4);
    let (point, options) = (fields.next()?, fields.next()?);
    let read_only = options.split(',').any(|option| option == "ro");
    Some(Mount { point, read_only, kind: file_system.split(' ').next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
78 49 0:39 / / ro,relatime master:2 - overlay overlay rw,lowerdir=/l
79 78 0:42 / /proc rw,nosuid - proc proc rw
82 78 0:45 / /sys ro,nosuid - sysfs sysfs ro
95 78 0:48 / /tmp rw,nosuid,nodev - tmpfs tmpfs rw,size=1024k
96 78 0:49 / /var/tmp rw,nosuid,nodev - tmpfs tmpfs rw,size=1024k
97 78 254:0 /data/w /home/sandbox rw,relatime - ext4 /dev/vda rw
98 78 254:0 /bin/runtimed /.runtimed ro,relatime - ext4 /dev/vda rw
99 78 254:0 /data/c /run/runtimed rw,relatime - ext4 /dev/vda rw
100 78 254:0 /data/p /run/slipway rw,relatime - ext4 /dev/vda rw
101 78 254:0 /data/hosts /etc/hosts ro,relatime - ext4 /dev/vda rw
";

    #[test]
    fn our_mounts_are_in_place_and_nothing_covers_them() {
        assert_eq!(find_mismatch(GOOD, false), None);
        let ext4 = |point: &str| format!("{GOOD}200 78 254:0 /x {point} rw - ext4 /dev/vda rw\n");
        let tmpfs = |point: &str| format!("{GOOD}200 78 0:9 / {point} rw - tmpfs tmpfs rw\n");
        let moved = |from: &str, to: &str| GOOD.replace(from, to);
        for (text, expected) in [
            // The image has /run -> /home/sandbox/x.
            (
                moved(" /run/runtimed ", " /home/sandbox/x/runtimed "),
                "nothing is mounted at its /run/runtimed",
            ),
            // The image has /.runtimed -> /a/b/evil, and a volume /a/b that is mounted later.
            (moved(" /.runtimed ", " /a/b/evil "), "nothing is mounted at its /.runtimed"),
            (moved(" /tmp ", " /x "), "nothing is mounted at its /tmp"),
            // The image has /x -> /run, and a volume /x/runtimed.
            (ext4("/run/runtimed"), "something else is mounted at its /run/runtimed"),
            (ext4("/home/sandbox/workspace"), "/home/sandbox/workspace is mounted in its /home/sandbox"),
            (ext4("/home"), "something is mounted at its /home"),
            (tmpfs("/run"), "something is mounted at its /run"),
            (ext4("/"), "its root is not read-only"),
            (moved("/ / ro", "/ / rw"), "its root is not read-only"),
            (moved("/.runtimed ro", "/.runtimed rw"), "its /.runtimed can be written"),
            (moved("/tmp rw,nosuid,nodev - tmpfs", "/tmp rw - ext4"), "its /tmp is not in memory"),
            ("nonsense".to_owned(), "its mounts are not understood"),
            (String::new(), "its root is not read-only"),
        ] {
            let found = find_mismatch(&text, false).expect(expected);
            assert!(found.starts_with(expected), "{found}, not {expected}");
        }
        assert_eq!(find_mismatch(&ext4("/home/sandboxes"), false), None);
        assert_eq!(find_mismatch(&ext4("/run/secrets"), false), None);
    }

    #[test]
    fn podman_may_mount_its_own_tmpfs_at_run() {
        let run = "201 78 0:47 / /run rw - tmpfs tmpfs rw\n";
        assert_eq!(find_mismatch(&format!("{GOOD}{run}"), true), None);
        assert!(find_mismatch(&format!("{GOOD}{run}{run}"), true).is_some());
        assert!(find_mismatch(&format!("{GOOD}{}", run.replace("tmpfs", "ext4")), true).is_some());
    }
}
