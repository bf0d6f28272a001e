//! What code in a sandbox may try against its walls, its neighbours and its host. All of it as the sandbox's
//! own user, through the API, in the sandbox that people get when they ask for nothing special.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use tests::processes::Seen;
use tests::programs::{SPY, SPY_TRIES};
use tests::{Caller, Hostd};

/// The first of the host's ids that sandboxes have, and how many each has.
const UID_FIRST: u32 = 0x1000_0000;
const UID_RANGE: u32 = 1 << 16;
/// SETUID, SETGID and KILL.
const CAPS_OF_PID_1: &str = "00000000000000e0";
const NO_CAPS: &str = "0000000000000000";

async fn one() -> Result<(Hostd, Caller, String)> {
    let hostd = Hostd::start().await?;
    let caller = hostd.local();
    let id = caller.create(&json!({})).await?;
    Ok((hostd, caller, id))
}

async fn python(caller: &Caller, id: &str, program: &str, arguments: &[&str]) -> Result<String> {
    let argv = [&["python3", "-c", program][..], arguments].concat();
    let exec: Value =
        caller.post(&format!("/v1/sandboxes/{id}/execs"), &json!({"argv": argv})).await?.expect(200)?;
    ensure!(exec["exit"] == json!({"kind": "exited", "code": 0}), "{exec}");
    Ok(exec["stdout"].as_str().context("its output")?.to_owned())
}

#[tokio::test]
async fn only_its_own_places_can_be_written_and_nothing_of_the_host_can_be_read() -> Result<()> {
    let (_hostd, caller, id) = one().await?;
    let refused = [
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
        "ls /sys/class",
        "ls /sys/kernel",
        "ls /host",
        "test -e /var/run/docker.sock",
    ];
    for line in refused {
        let exec = caller.shell(&id, line).await?;
        ensure!(exec["exit"]["kind"] == "exited" && exec["exit"]["code"] != 0, "{line}: {exec}");
    }
    for place in ["/tmp", "/var/tmp", "/dev/shm", "/home/sandbox", "/home/sandbox/workspace/app"] {
        caller.prints(&id, &format!("echo x > {place}/x && rm {place}/x")).await.context(place)?;
    }
    Ok(())
}

/// Calls the kernel with things that only the powerful may do, and prints the name of every call that was not
/// refused with EPERM, EACCES or ENOSYS.
const CALLS: &str = r#"
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

#[tokio::test]
async fn the_kernel_refuses_what_only_the_powerful_may_do() -> Result<()> {
    let (hostd, caller, id) = one().await?;
    let init = hostd.init(&id)?;
    let allowed = python(&caller, &id, CALLS, &[]).await?;
    ensure!(allowed.is_empty(), "not refused:\n{allowed}");
    let spied = python(&caller, &id, SPY, &["1"]).await?;
    ensure!(spied == "EPERM\n".repeat(SPY_TRIES), "{spied}");
    for line in [
        "unshare -U true",
        "unshare -rm true",
        "unshare -n true",
        "chroot /tmp /bin/true",
        "mount -t tmpfs x /mnt",
    ] {
        let exec = caller.shell(&id, line).await?;
        ensure!(exec["exit"]["code"] != 0, "{line}: {exec}");
    }
    ensure!(hostd.init(&id)? == init && caller.sandbox(&id).await?["status"] == "running");
    Ok(())
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim_start_matches(':').trim()
}

#[tokio::test]
async fn pid_1_has_three_capabilities_jobs_have_none_and_both_are_filtered_and_nobody_on_the_host()
-> Result<()> {
    let (hostd, caller, id) = one().await?;
    let other = caller.create(&json!({})).await?;
    let mut bases = Vec::new();
    for id in [&id, &other] {
        let init = hostd.init(id)?;
        let status = std::fs::read_to_string(format!("/proc/{init}/status"))?;
        for (name, expected) in [
            ("CapEff", CAPS_OF_PID_1),
            ("CapPrm", CAPS_OF_PID_1),
            ("CapBnd", CAPS_OF_PID_1),
            ("CapInh", NO_CAPS),
            ("CapAmb", NO_CAPS),
            ("NoNewPrivs", "1"),
            ("Seccomp", "2"),
        ] {
            ensure!(field(&status, name) == expected, "PID 1: {name} is {}", field(&status, name));
        }
        let base = Seen::at(init).context("PID 1")?.uid;
        ensure!(base >= UID_FIRST && base % UID_RANGE == 0, "PID 1 is {base}");
        bases.push(base);
        let job = caller.prints(id, "cat /proc/self/status").await?;
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
            ensure!(field(&job, name) == expected, "a job: {name} is {}", field(&job, name));
        }
        let ask = json!({"id": "stays", "argv": ["sleep", "100000"], "wait": false});
        caller.post(&format!("/v1/sandboxes/{id}/execs"), &ask).await?.expect::<Value>(202)?;
        let uids: Vec<u32> = hostd
            .processes()?
            .iter()
            .filter_map(|pid| Some(Seen::at(nix::unistd::Pid::from_raw(*pid))?.uid))
            .collect();
        ensure!(uids.contains(&(base + 1000)) && uids.iter().all(|uid| *uid >= UID_FIRST), "{uids:?}");
    }
    ensure!(bases[0] != bases[1], "they share their ids");
    Ok(())
}

#[tokio::test]
async fn a_set_id_program_in_the_workspace_gives_nothing() -> Result<()> {
    let (hostd, caller, id) = one().await?;
    let own =
        caller.prints(&id, "cp /usr/bin/id ~/mine && chmod 6755 ~/mine && ~/mine -u && ~/mine -g").await?;
    ensure!(own == "1000\n1000\n", "{own}");
    // Even one that belongs to the sandbox's root.
    let planted = hostd.workspace(&id).join("planted");
    let root = std::fs::metadata(hostd.workspace(&id))?.uid() - 1000;
    std::fs::copy("/usr/bin/id", &planted)?;
    chown(&planted, Some(root), Some(root))?;
    std::fs::set_permissions(&planted, std::fs::Permissions::from_mode(0o6755))?;
    let seen = caller.prints(&id, "stat -c '%u %a' ~/planted; ~/planted -u; ~/planted -g").await?;
    ensure!(seen == "0 6755\n1000\n1000\n", "{seen}");
    Ok(())
}

#[tokio::test]
async fn nobody_else_on_the_host_gets_to_the_files_of_a_sandbox() -> Result<()> {
    let (hostd, caller, id) = one().await?;
    caller.prints(&id, "chmod 777 ~ && cp /usr/bin/id ~/id && chmod 6777 ~/id").await?;
    let directory = hostd.data().join("oci").join(&id);
    for path in [hostd.workspace(&id).join("id"), directory.join("badge.json"), directory.join("control")] {
        ensure!(path.exists());
        // As the first user of most hosts, whose number the sandbox's user has on disk.
        let mut seen = Command::new("setpriv");
        seen.args(["--reuid=1000", "--regid=1000", "--clear-groups", "stat"]).arg(&path);
        let output = seen.output()?;
        ensure!(!output.status.success(), "{} can be seen", path.display());
        ensure!(String::from_utf8_lossy(&output.stderr).contains("Permission denied"), "{output:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_sandbox_has_loopback_only_and_cannot_reach_the_api_of_its_host() -> Result<()> {
    let (hostd, caller, id) = one().await?;
    let devices = caller.prints(&id, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '").await?;
    ensure!(devices == "lo\n", "{devices}");
    let address = hostd.url().trim_start_matches("http://").replace(':', "/");
    let reached = caller.shell(&id, &format!("exec 3<>/dev/tcp/{address}")).await?;
    ensure!(reached["exit"]["code"] == 1, "{reached}");
    let stderr = reached["stderr"].as_str().unwrap_or_default();
    ensure!(stderr.contains("Connection refused"), "{stderr}");
    let out = caller.shell(&id, "exec 3<>/dev/tcp/192.0.2.1/80").await?;
    ensure!(out["stderr"].as_str().unwrap_or_default().contains("unreachable"), "{out}");
    Ok(())
}

#[tokio::test]
async fn neighbours_do_not_see_each_others_files_processes_or_memory() -> Result<()> {
    let (hostd, caller, id) = one().await?;
    let other = caller.create(&json!({})).await?;
    let secret = "echo secret-4711 | tee /home/sandbox/secret /tmp/secret /dev/shm/secret";
    caller.prints(&other, secret).await?;
    let ask = json!({"id": "marked", "argv": ["sleep", "4711.5"], "wait": false});
    caller.post(&format!("/v1/sandboxes/{other}/execs"), &ask).await?.expect::<Value>(202)?;
    let look = format!(
        "grep -rls secret-4711 /home /tmp /var/tmp /dev/shm /run /etc 2>/dev/null; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | \
         grep -o 'sleep 4711[.]5'; ls -d {data} /proc/1/root{data} 2>/dev/null; ls /proc | grep -c '^[0-9]'",
        data = hostd.data().display()
    );
    let seen = caller.shell(&id, &look).await?;
    let seen = seen["stdout"].as_str().context("output")?.to_owned();
    // PID 1, the shim, the shell and what it runs.
    let processes: u32 = seen.trim().parse().with_context(|| format!("it sees {seen}"))?;
    ensure!(processes <= 8, "{processes} processes");
    Ok(())
}

/// Everything about a file that a follower of links could have changed.
fn traits(path: &Path) -> Result<(u32, u32, u32, Vec<u8>)> {
    let meta = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    Ok((meta.uid(), meta.gid(), meta.mode(), std::fs::read(path)?))
}

#[tokio::test]
async fn no_link_in_a_workspace_is_followed_when_it_is_stopped_started_made_anew_or_destroyed() -> Result<()>
{
    let (hostd, caller, id) = one().await?;
    let other = caller.create(&json!({})).await?;
    caller.prints(&other, "echo mine > /home/sandbox/canary").await?;
    let (canary, outside) = (hostd.workspace(&other).join("canary"), hostd.data().join("outside"));
    std::fs::create_dir(&outside)?;
    std::fs::write(outside.join("file"), "outside")?;
    let watched = ["/etc/passwd".into(), canary, outside.join("file"), hostd.data().join("token")];
    let before = watched.iter().map(|path| traits(path)).collect::<Result<Vec<_>>>()?;
    let links = format!(
        "cd ~ && rm -rf workspace && ln -s {outside} workspace && ln -s {outside} app && ln -s {outside}/file file && \
         ln -s /etc/passwd sandbox.yaml && ln -s {neighbour} neighbour && ln -s / root && ln -s .. up && \
         ln -s {data}/token token && ln -s ../../oci/{other}/badge.json badge.json && mkdir deep && ln -s {outside} deep/er",
        outside = outside.display(),
        neighbour = hostd.workspace(&other).display(),
        data = hostd.data().display(),
    );
    caller.prints(&id, &links).await?;
    for verb in ["stop", "start", "recreate", "stop", "start", "recreate?workspace=remove"] {
        let reply = caller.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?;
        reply.expect::<Value>(200).with_context(|| verb.to_owned())?;
        if verb == "recreate" {
            caller.shell(&id, "echo x >> file; echo x > workspace/x").await?;
        }
    }
    ensure!(caller.prints(&id, "ls -A /home/sandbox").await? == "workspace\n", "it is made anew");
    caller.prints(&id, &format!("cd ~ && ln -s {} here", outside.display())).await?;
    caller.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
    let after = watched.iter().map(|path| traits(path)).collect::<Result<Vec<_>>>()?;
    ensure!(before == after, "something of the host was touched");
    ensure!(std::fs::read_dir(&outside)?.count() == 1);
    ensure!(caller.prints(&other, "cat /home/sandbox/canary").await? == "mine\n");
    Ok(())
}

/// Forks so often, and leaves every child there is.
const FORKS: &str = "
import os, sys, time
for _ in range(int(sys.argv[1])):
    try:
        if os.fork() == 0: time.sleep(100000)
    except BlockingIOError: pass
";

#[tokio::test]
async fn a_fork_bomb_hurts_its_own_sandbox_only_and_is_told() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.local();
    let bombed = caller.create(&json!({"limits": {"pids": 64, "cpus": 0.5}})).await?;
    let other = caller.create(&json!({})).await?;
    let (execs, stats) = (format!("/v1/sandboxes/{bombed}/execs"), format!("/v1/sandboxes/{bombed}/stats"));
    let ask = json!({"id": "bounded", "argv": ["python3", "-c", FORKS, "100"]});
    let exec: Value = caller.post(&execs, &ask).await?.expect(200)?;
    let told =
        exec["hints"].as_array().is_some_and(|hints| hints.iter().any(|hint| hint["kind"] == "pids_limit"));
    ensure!(told, "{exec}");
    caller.post(&format!("{execs}/bounded/cancel"), &json!({"grace_ms": 0})).await?;
    caller.until(&stats, |stats| stats["pids"].as_u64() < Some(16)).await?;
    let ask = json!({"id": "endless", "argv": ["python3", "-c", FORKS, "1000000000"], "wait": false});
    caller.post(&execs, &ask).await?.expect::<Value>(202)?;
    let hits = caller.get(&stats).await?.expect::<Value>(200)?["pids_limit_hits"].as_u64().context("hits")?;
    let seen = caller.until(&stats, |stats| stats["pids_limit_hits"].as_u64() > Some(hits)).await?;
    ensure!(seen["pids"].as_u64() <= Some(64), "{seen}");
    for _ in 0..5 {
        ensure!(caller.prints(&other, "echo alive").await? == "alive\n");
    }
    ensure!(caller.sandbox(&bombed).await?["status"] == "running");
    caller.delete(&format!("/v1/sandboxes/{bombed}")).await?.expect::<Value>(200)?;
    let alone = [other].into_iter().collect();
    hostd.holds_only(&alone, &alone)
}

#[tokio::test]
async fn a_memory_bomb_ends_as_oom_and_its_sandbox_lives_on() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.local();
    let bombed = caller.create(&json!({"limits": {"memory_mb": 64}})).await?;
    let other = caller.create(&json!({})).await?;
    let ask = json!({"argv": ["python3", "-c", "x = []\nwhile True: x.append(bytearray(b'x' * (1 << 20)))"]});
    let exec: Value = caller.post(&format!("/v1/sandboxes/{bombed}/execs"), &ask).await?.expect(200)?;
    ensure!(exec["exit"]["kind"] == "oom", "{exec}");
    let stats: Value = caller.get(&format!("/v1/sandboxes/{bombed}/stats")).await?.expect(200)?;
    ensure!(stats["oom_kills"].as_u64() >= Some(1) && stats["memory_limit_bytes"] == 64 << 20, "{stats}");
    ensure!(stats["memory_peak_bytes"].as_u64() > Some(60 << 20), "{stats}");
    for id in [&bombed, &other] {
        ensure!(caller.prints(id, "echo alive").await? == "alive\n");
    }
    Ok(())
}

#[tokio::test]
async fn a_full_tmp_of_one_sandbox_counts_against_its_own_memory() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.local();
    let id = caller.create(&json!({"limits": {"memory_mb": 64}})).await?;
    let exec = caller.shell(&id, "head -c 200M /dev/zero > /tmp/big").await?;
    ensure!(exec["exit"]["code"] != 0, "{exec}");
    let kilobytes: u64 = caller.prints(&id, "du -k /tmp/big | cut -f1").await?.trim().parse()?;
    ensure!(kilobytes <= 32 << 10, "{kilobytes} kB");
    caller.prints(&id, "rm /tmp/big && echo ok > /tmp/small").await?;
    Ok(())
}
