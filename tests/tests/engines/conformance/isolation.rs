//! Attempts of sandboxed code against its isolation, its neighbours and its host.

use super::driver_column::{Column, Outcome, Verdict, refused};
use super::fixture::{Fixture, passed};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tests::escape::{CALLS, FORBIDDEN, ITS_OWN, check_init, check_job};
use tests::processes::ProcessEntry;
use tests::programs::{SPY, SPY_TRIES};

pub async fn places(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    place.caller.fails(&id, &FORBIDDEN).await?;
    for own in ITS_OWN {
        place.caller.prints(&id, &format!("echo x > {own}/x && rm {own}/x")).await.context(own)?;
    }
    passed()
}

/// Of the kernel: absent, empty or not to be read.
const HIDDEN: [&str; 9] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/acpi",
    "/sys/firmware",
    "/sys/class",
    "/sys/kernel",
    "/sys/block",
    "/sys/module",
];

pub async fn hidden(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    for path in HIDDEN {
        let line =
            format!("test -z \"$(ls -A {path}/ 2>/dev/null || head -c1 {path} 2>/dev/null | tr -d '\\0')\"");
        place.caller.prints(&id, &line).await.context(path)?;
    }
    let devices = place.caller.prints(&id, "find /dev -type b").await?;
    ensure!(devices.is_empty(), "{devices}");
    passed()
}

pub async fn calls(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    let init = place.init(&id)?;
    let allowed = place.caller.python(&id, CALLS, &[]).await?;
    ensure!(allowed.is_empty(), "not refused:\n{allowed}");
    let spied = place.caller.python(&id, SPY, &["1"]).await?;
    ensure!(spied == "EPERM\n".repeat(SPY_TRIES), "{spied}");
    let tools = ["unshare -U true", "unshare -rm true", "chroot /tmp /bin/true", "mount -t tmpfs x /mnt"];
    place.caller.fails(&id, &tools).await?;
    ensure!(!init.is_gone() && place.caller.sandbox(&id).await?["status"] == "running");
    passed()
}

pub async fn capabilities(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    check_init(&std::fs::read_to_string(format!("/proc/{}/status", place.hostd.init(&id)?))?)?;
    check_job(&place.caller.prints(&id, "cat /proc/self/status").await?)?;
    passed()
}

/// Returns the driver's view from the API.
async fn driver(place: &Fixture) -> Result<Value> {
    let page: Value = place.caller.get("/v1/host").await?.expect(200)?;
    let drivers = page["drivers"].as_array().context("drivers")?;
    drivers.iter().find(|one| one["name"] == place.column.driver()).cloned().context("the driver")
}

/// Whether the driver says that each sandbox has a user namespace.
async fn has_own_ids(place: &Fixture) -> Result<bool> {
    let driver = driver(place).await?;
    let isolation = driver["capabilities"]["isolation"].as_array().context("what it isolates by")?;
    Ok(isolation.iter().any(|one| one.as_str().is_some_and(|text| text.contains("user namespace"))))
}

pub async fn own_ids(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    let other = place.caller.create(&json!({})).await?;
    let uids = [&id, &other].map(|id| place.init(id).map(|init| init.uid));
    let [one, two] = uids;
    let (one, two) = (one?, two?);
    if !has_own_ids(&place).await? {
        ensure!(one == 0 && two == 0, "it has them, and does not say so: {one}, {two}");
        return Ok(Outcome::Refused("not among its capabilities".to_owned()));
    }
    ensure!(one >= 0x1_0000 && two >= 0x1_0000 && one != two, "PID 1 is {one} and {two}");
    passed()
}

pub async fn set_id(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    let own = "cp /usr/bin/id ~/mine && chmod 6755 ~/mine && ~/mine -u && ~/mine -g";
    ensure!(place.caller.prints(&id, own).await? == "1000\n1000\n");
    // Even one that belongs to the sandbox's root.
    let planted = place.hostd.workspace(&id).join("planted");
    let root = std::fs::metadata(place.hostd.workspace(&id))?.uid() - 1000;
    std::fs::copy("/usr/bin/id", &planted)?;
    chown(&planted, Some(root), Some(root))?;
    std::fs::set_permissions(&planted, std::fs::Permissions::from_mode(0o6755))?;
    let seen = place.caller.prints(&id, "stat -c '%u %a' ~/planted; ~/planted -u; ~/planted -g").await?;
    ensure!(seen == "0 6755\n1000\n1000\n", "{seen}");
    passed()
}

/// Whether the first user of most hosts, whose number the sandbox's user has inside, can read it.
fn is_read(path: &Path) -> Result<bool> {
    ensure!(path.exists(), "{}", path.display());
    let mut test = Command::new("setpriv");
    test.args(["--reuid=1000", "--regid=1000", "--clear-groups", "test", "-r"]).arg(path);
    Ok(test.status()?.success())
}

pub async fn files(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    place.caller.prints(&id, "chmod 777 ~ && cp /usr/bin/id ~/id && chmod 6777 ~/id").await?;
    let directory = place.hostd.directory(&id);
    for path in [directory.join("badge.json"), directory.join("control")] {
        ensure!(!is_read(&path)?, "{} can be read", path.display());
    }
    let workspace = place.hostd.workspace(&id).join("id");
    if is_read(&workspace)? {
        // The OCI runtime itself is unprivileged on the host then, and must reach the directory.
        let version = driver(&place).await?["version"].to_string();
        let cannot = column.engine().is_none() && !version.contains("idmapped mounts");
        ensure!(cannot, "{} can be read, with {version}", workspace.display());
        let owner = std::fs::metadata(&workspace)?.uid();
        ensure!(owner > 0x1_0000, "it is a set-id program of {owner}");
        return Ok(Outcome::Refused("needs idmapped mounts".to_owned()));
    }
    passed()
}

/// Tries the port on every kind of address, as one does who may share it.
const TAKE: &str = r#"
import socket
for family, address in ((2, "127.0.0.1"), (2, "127.0.0.2"), (2, "0.0.0.0"), (10, "::1"), (10, "::")):
    try:
        server = socket.socket(family)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind((address, 900))
        print("bound", address)
    except PermissionError: pass
    # Where there is no IPv6 at all.
    except OSError as error:
        if family == 2: print(error, address)
"#;

pub async fn own_port(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    let mut all = vec![id, place.caller.create(&json!({"network": "none"})).await?];
    let open = place.caller.post("/v1/sandboxes", &json!({"network": "open"})).await?;
    if open.status == 201 {
        all.push(open.expect::<Value>(201)?["id"].as_str().context("an id")?.to_owned());
    }
    for id in &all {
        let taken = place.caller.python(id, TAKE, &[]).await?;
        ensure!(taken.is_empty(), "{taken}");
    }
    passed()
}

pub async fn network(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    let closed = place.caller.create(&json!({"network": "none"})).await?;
    let address = place.hostd.url().trim_start_matches("http://").replace(':', "/");
    for id in [&id, &closed] {
        let devices = place.caller.prints(id, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '").await?;
        ensure!(devices == "lo\n", "{devices}");
        let reached = place.caller.shell(id, &format!("exec 3<>/dev/tcp/{address}")).await?;
        ensure!(
            reached["stderr"].as_str().is_some_and(|text| text.contains("Connection refused")),
            "{reached}"
        );
        let out = place.caller.shell(id, "exec 3<>/dev/tcp/192.0.2.1/80").await?;
        ensure!(out["stderr"].as_str().is_some_and(|text| text.contains("unreachable")), "{out}");
    }
    passed()
}

/// Waits for a connection and reports it.
const LISTEN: &str = "import socket\ns = socket.create_server((\"0.0.0.0\", 7000))\nprint(\"listens\", flush=True)\n\
    c, _ = s.accept()\nprint(\"reached\", flush=True)";

pub async fn open_network(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let reply = place.caller.post("/v1/sandboxes", &json!({"network": "open"})).await?;
    if reply.status != 201 {
        return refused(&reply, "network");
    }
    let id = reply.expect::<Value>(201)?["id"].as_str().context("an id")?.to_owned();
    let other = place.caller.create(&json!({"network": "open"})).await?;
    place.leaves(&other, "listener", &["python3", "-c", LISTEN]).await?;
    let output = format!("/v1/sandboxes/{other}/execs/listener/output?follow=1");
    place.caller.follow_until(&output, "listens").await?;
    let address = "hostname -I 2>/dev/null | cut -d' ' -f1";
    let theirs = place.caller.prints(&other, address).await?.trim().to_owned();
    ensure!(theirs.parse::<std::net::Ipv4Addr>().is_ok(), "{theirs:?} is no address");
    // The bridge gateway is the way out and refuses the connection, since nothing listens there.
    let way = "read -r _ gate < <(awk '$2 == \"00000000\" {print $1, $3}' /proc/net/route); \
               printf '%d.%d.%d.%d' 0x${gate:6:2} 0x${gate:4:2} 0x${gate:2:2} 0x${gate:0:2}";
    let gate = place.caller.prints(&id, way).await?;
    let out = place.caller.shell(&id, &format!("exec 3<>/dev/tcp/{gate}/9")).await?;
    ensure!(out["stderr"].as_str().is_some_and(|text| text.contains("refused")), "{out}");
    let reach = format!("timeout 2 bash -c 'exec 3<>/dev/tcp/{theirs}/7000'");
    let reached = place.caller.shell(&id, &reach).await?;
    ensure!(reached["exit"]["code"] != 0, "a neighbour is reached: {reached}");
    passed()
}

pub async fn neighbours(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    let other = place.caller.create(&json!({})).await?;
    let secret = "echo secret-4711 | tee /home/sandbox/secret /tmp/secret /dev/shm/secret";
    place.caller.prints(&other, secret).await?;
    place.leaves(&other, "marked", &["sleep", "4711.5"]).await?;
    let look = format!(
        "grep -rls secret-4711 /home /tmp /var/tmp /dev/shm /run /etc 2>/dev/null; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | \
         grep -o 'sleep 4711[.]5'; ls -d {data} /proc/1/root{data} 2>/dev/null; ls /proc | grep -c '^[0-9]'",
        data = place.hostd.data().display()
    );
    let seen = place.caller.shell(&id, &look).await?;
    let seen = seen["stdout"].as_str().context("output")?.to_owned();
    // PID 1, the shim, the shell and what it runs.
    let processes: u32 = seen.trim().parse().with_context(|| format!("it sees {seen}"))?;
    ensure!(processes <= 8, "{processes} processes");
    let (one, two) = (place.init(&id)?, place.init(&other)?);
    ensure!(namespaces(&one)?.iter().zip(namespaces(&two)?).all(|(one, two)| *one != two), "they share one");
    passed()
}

fn namespaces(init: &ProcessEntry) -> Result<Vec<std::path::PathBuf>> {
    let kinds = ["mnt", "pid", "net", "ipc", "uts"];
    kinds.iter().map(|kind| Ok(std::fs::read_link(format!("/proc/{}/ns/{kind}", init.pid))?)).collect()
}

/// Everything about a file that a follower of links could have changed.
fn traits(path: &Path) -> Result<(u32, u32, u32, Vec<u8>)> {
    let meta = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    Ok((meta.uid(), meta.gid(), meta.mode(), std::fs::read(path)?))
}

pub async fn links(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    let outside = place.hostd.data().join("outside");
    std::fs::create_dir(&outside)?;
    std::fs::write(outside.join("file"), "outside")?;
    let watched = ["/etc/passwd".into(), outside.join("file"), place.hostd.data().join("token")];
    let before = watched.iter().map(|path| traits(path)).collect::<Result<Vec<_>>>()?;
    let links = format!(
        "cd ~ && rm -rf workspace && ln -s {outside} workspace && ln -s {outside}/file file && \
         ln -s /etc/passwd sandbox.yaml && ln -s / root && ln -s .. up && ln -s {data}/token token",
        outside = outside.display(),
        data = place.hostd.data().display(),
    );
    place.caller.prints(&id, &links).await?;
    for verb in ["stop", "start", "recreate", "recreate?workspace=remove"] {
        place.verb(&id, verb).await.with_context(|| verb.to_owned())?;
    }
    ensure!(place.caller.prints(&id, "ls -A /home/sandbox").await? == "workspace\n", "it is made anew");
    place.caller.prints(&id, &format!("cd ~ && ln -s {} here", outside.display())).await?;
    place.destroy(&id).await?;
    let after = watched.iter().map(|path| traits(path)).collect::<Result<Vec<_>>>()?;
    ensure!(
        before == after && std::fs::read_dir(&outside)?.count() == 1,
        "something of the host was touched"
    );
    passed()
}
