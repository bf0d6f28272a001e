//! Attempts of sandboxed code against its isolation, its neighbours and its host: as the sandbox's own user,
//! through the API, in a sandbox with default settings.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use tests::escape::{CALLS, FORBIDDEN, FORBIDDEN_SYS, FORKS, ITS_OWN, check_init, check_job};
use tests::host::until;
use tests::processes::ProcessEntry;
use tests::programs::{SPY, SPY_TRIES};
use tests::{Caller, Hostd};

/// The first of the host's ids that sandboxes have, and how many each has.
const UID_FIRST: u32 = 0x1000_0000;
const UID_RANGE: u32 = 1 << 16;

async fn one() -> Result<(Hostd, Caller, String)> {
    let hostd = Hostd::start().await?;
    let caller = hostd.local();
    let id = caller.create(&json!({})).await?;
    Ok((hostd, caller, id))
}

#[tokio::test]
async fn only_its_own_places_can_be_written_and_nothing_of_the_host_can_be_read() -> Result<()> {
    let (_hostd, caller, id) = one().await?;
    caller.fails(&id, &FORBIDDEN).await?;
    caller.fails(&id, &FORBIDDEN_SYS).await?;
    for place in ITS_OWN {
        caller.prints(&id, &format!("echo x > {place}/x && rm {place}/x")).await.context(place)?;
    }
    Ok(())
}

#[tokio::test]
async fn the_kernel_refuses_what_only_the_powerful_may_do() -> Result<()> {
    let (hostd, caller, id) = one().await?;
    let init = hostd.init(&id)?;
    let allowed = caller.python(&id, CALLS, &[]).await?;
    ensure!(allowed.is_empty(), "not refused:\n{allowed}");
    let spied = caller.python(&id, SPY, &["1"]).await?;
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

#[tokio::test]
async fn pid_1_has_three_capabilities_jobs_have_none_and_both_are_filtered_and_nobody_on_the_host()
-> Result<()> {
    let (hostd, caller, id) = one().await?;
    let other = caller.create(&json!({})).await?;
    let mut bases = Vec::new();
    for id in [&id, &other] {
        let init = hostd.init(id)?;
        let status = std::fs::read_to_string(format!("/proc/{init}/status"))?;
        check_init(&status)?;
        let base = ProcessEntry::at(init).context("PID 1")?.uid;
        ensure!(base >= UID_FIRST && base % UID_RANGE == 0, "PID 1 is {base}");
        bases.push(base);
        let job = caller.prints(id, "cat /proc/self/status").await?;
        check_job(&job)?;
        let ask = json!({"id": "stays", "argv": ["sleep", "100000"], "wait": false});
        caller.post(&format!("/v1/sandboxes/{id}/execs"), &ask).await?.expect::<Value>(202)?;
        // The job was accepted and begins a moment later.
        let uids = until("the job runs", async || {
            let pids = hostd.processes()?.into_iter().map(nix::unistd::Pid::from_raw);
            let uids: Vec<u32> = pids.filter_map(|pid| Some(ProcessEntry::at(pid)?.uid)).collect();
            Ok(uids.contains(&(base + 1000)).then_some(uids))
        })
        .await?;
        ensure!(uids.iter().all(|uid| *uid >= UID_FIRST), "{uids:?}");
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
