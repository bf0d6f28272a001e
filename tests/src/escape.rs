//! Attempts of sandboxed code to break out, for every driver.

use crate::host::Caller;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// SETUID, SETGID and KILL.
pub const CAPS_OF_PID_1: &str = "00000000000000e0";
pub const NO_CAPS: &str = "0000000000000000";

/// Shell lines that must fail.
pub const FORBIDDEN: [&str; 48] = [
    "touch /x",
    "mkdir /x",
    "touch /usr/x",
    "touch /etc/x",
    "echo x >> /etc/passwd",
    "rm /etc/hosts",
    "echo x > /.runtimed",
    "touch /home/x",
    "touch /root/x",
    "touch /var/x",
    "touch /run/x",
    "touch /dev/x",
    "touch /sys/x",
    "mkdir /sys/fs/cgroup/memory/x",
    "echo 0 > /sys/fs/cgroup/memory/tasks",
    "echo x > /proc/sys/kernel/core_pattern",
    "echo x > /proc/sys/kernel/hostname",
    "echo 1 > /proc/sys/net/ipv4/ip_forward",
    "echo b > /proc/sysrq-trigger",
    "echo 0 > /proc/1/oom_score_adj",
    "ls /run/runtimed",
    "cat /run/runtimed/sock",
    "touch /run/runtimed/x",
    "rm -r /run/runtimed",
    "rm /run/slipway/sock",
    "ln -sf /etc/passwd /run/slipway/sock",
    "mv /run/slipway /run/other",
    "ln -sfn /tmp /run/runtimed",
    "mv /run/runtimed /run/x",
    "ls /proc/1/root/",
    "ls /proc/1/cwd/",
    "ls /proc/1/fd",
    "cat /proc/1/environ",
    "cat /proc/1/maps",
    "head -c1 /proc/1/mem",
    "cat /proc/1/stack",
    "mknod /tmp/x c 1 1",
    "mknod ~/x b 8 0",
    "mknod /dev/shm/x c 1 1",
    "cat /dev/mem",
    "cat /dev/kmsg",
    "head -c1 /dev/kcore",
    "head -c1 /proc/kcore && test -s /proc/kcore",
    "ls /dev/vda /dev/sda /dev/loop0",
    "dmesg",
    "ls /var/lib/slipway",
    "ls /host",
    "test -e /var/run/docker.sock",
];

/// The same, of what the kernel tells of the host's devices and of itself.
pub const FORBIDDEN_SYS: [&str; 2] = ["ls /sys/class", "ls /sys/kernel"];

/// Calls the kernel with things that only the powerful may do, and prints the name of every call that was not
/// refused with EPERM, EACCES or ENOSYS.
pub const CALLS: &str = r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(4096)
address = ctypes.addressof(buffer)
REFUSED = (1, 13, 38)
def sys(name, number, *arguments):
    ctypes.set_errno(0)
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    if libc.syscall(ctypes.c_long(number), *words) != -1 or ctypes.get_errno() not in REFUSED:
        print(name, "errno", ctypes.get_errno())
NEW = dict(user=0x10000000, mount=0x20000, net=0x40000000, pid=0x20000000, ipc=0x8000000, uts=0x4000000, cgroup=0x2000000)
for name, flag in NEW.items():
    sys("unshare " + name, 272, flag)
sys("clone user", 56, NEW["user"] | 17, 0, 0, 0, 0)
sys("clone3", 435, address, 88)
sys("setns", 308, os.open("/proc/self/ns/net", os.O_RDONLY), 0)
sys("mount", 165, b"tmpfs", b"/tmp", b"tmpfs", 0, 0)
sys("bind", 165, b"/home", b"/mnt", b"", 4096, 0)
sys("remount", 165, b"", b"/", b"", 32, 0)
sys("umount2", 166, b"/proc/sys", 2)
sys("pivot_root", 155, b"/tmp", b"/tmp")
sys("chroot", 161, b"/tmp")
sys("fsopen", 430, b"tmpfs", 0)
sys("open_tree", 428, -100, b"/", 1)
sys("move_mount", 429, -100, b"/tmp", -100, b"/mnt", 0)
sys("mount_setattr", 442, -100, b"/", 0, address, 32)
sys("ptrace attach", 101, 16, 1, 0, 0)
sys("kill 1", 62, 1, 9)
sys("tkill 1", 200, 1, 9)
sys("setuid 0", 105, 0)
sys("setgid 0", 106, 0)
sys("setresuid 0", 117, 0, 0, 0)
sys("setgroups", 116, 0, 0)
sys("mknod", 133, b"/tmp/device", 0o20666, 0x101)
sys("keyctl", 250, 0, -3, 1)
sys("add_key", 248, b"user", b"x", b"y", 1, -3)
sys("request_key", 249, b"user", b"x", 0, -3)
sys("bpf", 321, 0, address, 72)
sys("io_uring_setup", 425, 8, address)
sys("userfaultfd", 323, 1)
sys("perf_event_open", 298, address, 0, -1, -1, 0)
sys("open_by_handle_at", 304, -100, address, 0)
sys("init_module", 175, address, 10, b"")
sys("finit_module", 313, 0, b"", 0)
sys("delete_module", 176, b"loop", 0)
sys("kexec_load", 246, 0, 0, 0, 0)
sys("reboot", 169, 0xfee1dead, 672274793, 0, 0)
sys("swapon", 167, b"/tmp/x", 0)
sys("syslog", 103, 3, address, 100)
sys("settimeofday", 164, address, 0)
sys("clock_settime", 227, 0, address)
sys("adjtimex", 159, ctypes.create_string_buffer(b"\x01" + bytes(207)))
sys("sethostname", 170, b"evil", 4)
sys("acct", 163, b"/tmp/x")
sys("quotactl", 179, 0x80000700, 0, 0, 0)
sys("iopl", 172, 3)
sys("ioperm", 173, 0, 1, 1)
"#;

/// Forks so often, and leaves every child there is.
pub const FORKS: &str = "
import os, sys, time
for _ in range(int(sys.argv[1])):
    try:
        if os.fork() == 0: time.sleep(100000)
    except BlockingIOError: pass
";

/// Where it may write.
pub const ITS_OWN: [&str; 5] =
    ["/tmp", "/var/tmp", "/dev/shm", "/home/sandbox", "/home/sandbox/workspace/app"];

/// A field of `/proc/<pid>/status`.
pub fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim_start_matches(':').trim()
}

/// That PID 1 has three capabilities and is filtered, by its `/proc/<pid>/status`.
pub fn check_init(status: &str) -> Result<()> {
    for (name, expected) in [
        ("CapEff", CAPS_OF_PID_1),
        ("CapPrm", CAPS_OF_PID_1),
        ("CapBnd", CAPS_OF_PID_1),
        ("CapInh", NO_CAPS),
        ("CapAmb", NO_CAPS),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
    ] {
        ensure!(field(status, name) == expected, "PID 1: {name} is {}", field(status, name));
    }
    Ok(())
}

/// That a job has none and is the sandbox's user, by the same seen from inside.
pub fn check_job(status: &str) -> Result<()> {
    for (name, expected) in [
        ("CapEff", NO_CAPS),
        ("CapPrm", NO_CAPS),
        ("CapInh", NO_CAPS),
        ("CapAmb", NO_CAPS),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("Uid", "1000\t1000\t1000\t1000"),
        ("Gid", "1000\t1000\t1000\t1000"),
    ] {
        ensure!(field(status, name) == expected, "a job: {name} is {}", field(status, name));
    }
    Ok(())
}

impl Caller {
    /// Runs a Python program that must succeed and returns its output.
    pub async fn python(&self, id: &str, program: &str, arguments: &[&str]) -> Result<String> {
        let argv = [&["python3", "-c", program][..], arguments].concat();
        let exec = self.post(&format!("/v1/sandboxes/{id}/execs"), &json!({"argv": argv})).await?;
        let exec: Value = exec.expect(200)?;
        ensure!(exec["exit"] == json!({"kind": "exited", "code": 0}), "{exec}");
        Ok(exec["stdout"].as_str().context("its output")?.to_owned())
    }

    /// That each of these shell lines fails, by itself.
    pub async fn fails(&self, id: &str, lines: &[&str]) -> Result<()> {
        for line in lines {
            let exec = self.shell(id, line).await?;
            ensure!(exec["exit"]["kind"] == "exited" && exec["exit"]["code"] != 0, "{line}: {exec}");
        }
        Ok(())
    }
}
