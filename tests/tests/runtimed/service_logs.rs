//! Logs of services: one log for all runs, with positions that go on, within bounds, followed without a gap.

use anyhow::{Context, Result, ensure};
use protocol::{Chunk, ErrorCode, Stream};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use tests::output::{Follower, bytes_of};
use tests::services::kind;
use tests::{Followed, Sandbox, Services, scaled};

const MB: u64 = 1 << 20;
/// `SERVICE_LOG_MAX_BYTES` and `SEGMENT_MAX_BYTES` of runtimed.
const KEPT_MAX_BYTES: u64 = 16 * MB;
const FILE_MAX_BYTES: u64 = 4 * MB;

fn path(name: &str, query: &str) -> String {
    format!("/v1/services/{name}/logs?{query}")
}

/// All of an answer, and its last chunk.
async fn read(sandbox: &Sandbox, query: &str) -> Result<(Vec<Chunk>, Chunk)> {
    let mut follower = Follower::open(sandbox.client(), &path("web", query)).await?;
    let mut chunks = Vec::new();
    while let Some(chunk) = follower.next().await? {
        chunks.push(chunk);
    }
    let end = chunks.pop().context("an answer has an end")?;
    ensure!(matches!(end, Chunk::End { .. }), "{query} ends with {end:?}");
    Ok((chunks, end))
}

async fn text(sandbox: &Sandbox, query: &str) -> Result<String> {
    let mut bytes = Vec::new();
    for chunk in read(sandbox, query).await?.0 {
        if let Chunk::Output { payload, .. } = chunk {
            bytes.extend(bytes_of(&payload)?);
        }
    }
    Ok(String::from_utf8(bytes)?)
}

/// Follows until both streams together are this long; every byte in its place.
async fn follow_to(sandbox: &Sandbox, seen: &mut Followed, bytes: usize) -> Result<()> {
    let following = async {
        let mut follower =
            Follower::open(sandbox.client(), &path("web", &format!("follow=1&after={}", seen.cursor)))
                .await?;
        while seen.stdout.len() + seen.stderr.len() < bytes {
            seen.add(&follower.next().await?.context("the stream ended")?)?;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(tests::sandbox::PATIENCE, following).await.context("the log does not grow")?
}

#[tokio::test]
async fn the_log_goes_on_over_restarts_changes_and_boots() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let manifest = |run: u32| {
        format!("services:\n  web:\n    command: echo run {run}; echo oops {run} >&2; exec sleep 1000\n")
    };
    let mut seen = Followed::default();
    let each = "run 0\noops 0\n".len();

    sandbox.write_app("sandbox.yaml", &manifest(0))?;
    let services = Services::of(&sandbox).await?;
    services_there(&sandbox).await?;
    follow_to(&sandbox, &mut seen, each).await?;
    services.drive("web", "restart").await?;
    follow_to(&sandbox, &mut seen, 2 * each).await?;
    sandbox.write_app("sandbox.yaml", &manifest(1))?;
    follow_to(&sandbox, &mut seen, 3 * each).await?;
    let sandbox = sandbox.crash_and_boot().await?;
    services_there(&sandbox).await?;
    follow_to(&sandbox, &mut seen, 4 * each).await?;
    let client = sandbox.client().clone();
    sandbox.signal(nix::sys::signal::Signal::SIGTERM)?;
    let mut sandbox = sandbox;
    sandbox.wait().await?;
    ensure!(client.get("/healthz").await.is_err());
    let sandbox = sandbox.boot_again().await?;
    services_there(&sandbox).await?;
    follow_to(&sandbox, &mut seen, 5 * each).await?;

    ensure!(String::from_utf8(seen.stdout.clone())? == "run 0\nrun 0\nrun 1\nrun 1\nrun 1\n", "{seen:?}");
    ensure!(
        String::from_utf8(seen.stderr.clone())? == "oops 0\noops 0\noops 1\noops 1\noops 1\n",
        "{seen:?}"
    );
    ensure!(seen.cursor == 5 * each as u64 && !seen.ended);
    sandbox.stop().await
}

/// Waits until `web` of the manifest is known.
async fn services_there(sandbox: &Sandbox) -> Result<()> {
    Services::of(sandbox).await?.started("web").await.map(drop)
}

#[tokio::test]
async fn a_part_of_the_log_is_given_as_asked_for() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let services = Services::of(&sandbox).await?;
    let command =
        "echo one; echo two >&2; printf 'three\nfour'; printf '\\303\\244\\377' >&2; exec sleep 1000";
    services.put(json!([{"name": "web", "command": command}])).await?;
    // "one two three four" with their line ends, and three bytes more.
    let mut all = Followed::default();
    follow_to(&sandbox, &mut all, 21).await?;
    ensure!(all.stdout == b"one\nthree\nfour" && all.stderr == b"two\n\xc3\xa4\xff");
    for (query, expected) in [
        ("stream=stdout", "one\nthree\nfour"),
        ("stream=stdout&tail=1", "four"),
        ("after=21", ""),
        ("tail=0", ""),
        ("last=0", ""),
    ] {
        let found = text(&sandbox, query).await?;
        ensure!(found == expected, "{query}: {found:?}");
    }
    // Which stream came first is chance, so lines are counted in what came.
    let bytes = |chunks: &[Chunk]| -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for chunk in chunks {
            if let Chunk::Output { payload, .. } = chunk {
                bytes.extend(bytes_of(payload)?);
            }
        }
        Ok(bytes)
    };
    let all = bytes(&read(&sandbox, "").await?.0)?;
    let lines: Vec<&[u8]> = all.split_inclusive(|byte| *byte == b'\n').collect();
    let tail = |count: usize| lines[lines.len().saturating_sub(count)..].concat();
    for (query, expected) in [
        ("", all.clone()),
        ("tail=1", tail(1)),
        ("tail=2", tail(2)),
        ("tail=3", tail(3)),
        ("tail=100", all.clone()),
        ("last=3", all[18..].to_vec()),
        ("last=1000000", all.clone()),
        ("after=4", all[4..].to_vec()),
        ("stream=stderr", b"two\n\xc3\xa4\xff".to_vec()),
        ("stream=stderr&tail=1", b"\xc3\xa4\xff".to_vec()),
    ] {
        let (chunks, end) = read(&sandbox, query).await?;
        ensure!(bytes(&chunks)? == expected, "{query}: {chunks:?}");
        ensure!(end == Chunk::End { cursor: 21, ended: false }, "{query}: {end:?}");
    }
    for (query, field) in [
        ("after=22", "after"),
        ("after=-1", "after"),
        ("tail=10001", "tail"),
        ("tail=1&last=1", "after"),
        ("stream=pty", "stream"),
        ("lines=3", "lines"),
    ] {
        let error = sandbox.client().get(&path("web", query)).await?.error()?.error;
        ensure!(error.code == ErrorCode::InvalidRequest, "{query}: {error:?}");
        ensure!(error.detail.field.as_deref() == Some(field), "{query}: {error:?}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn the_oldest_goes_when_the_log_is_too_long_and_who_asks_for_it_is_told() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    // Lines of 64 bytes, each with its number.
    let lines = 25 * MB / 64;
    let write = format!("seq -f '%063.0f' 0 {}", lines - 1);
    services.put(json!([{"name": "web", "command": write, "restart": "never"}])).await?;
    services.state("web", "stopped").await?;

    let gone = sandbox.client().get(&path("web", "after=0")).await?;
    let error = gone.error()?.error;
    let oldest: u64 = error.detail.oldest.clone().context("the oldest position")?.parse()?;
    ensure!(gone.status == 410 && error.code == ErrorCode::HistoryGone, "{error:?}");
    let kept = 25 * MB - oldest;
    ensure!((KEPT_MAX_BYTES - FILE_MAX_BYTES..=KEPT_MAX_BYTES).contains(&kept), "{kept} bytes are kept");
    let on_disk = disk_bytes(&sandbox.control_dir().join("services/web"))?;
    ensure!(on_disk <= KEPT_MAX_BYTES + FILE_MAX_BYTES, "{on_disk} on disk");
    ensure!(sandbox.client().get(&path("web", &format!("after={}", oldest - 1))).await?.status == 410);

    let mut at = oldest;
    for chunk in read(&sandbox, &format!("after={oldest}")).await?.0 {
        let Chunk::Output { cursor, stream: Stream::Stdout, offset, payload } = chunk else {
            anyhow::bail!("{chunk:?}")
        };
        let bytes = bytes_of(&payload)?;
        ensure!(offset == at && cursor == at + bytes.len() as u64, "at {at}");
        at = cursor;
    }
    ensure!(at == 25 * MB && text(&sandbox, "").await?.len() as u64 == kept);
    ensure!(text(&sandbox, "tail=1").await? == format!("{:063}\n", lines - 1));

    // The next run goes on where this one ended.
    services.drive("web", "start").await?;
    let mut follower =
        Follower::open(sandbox.client(), &path("web", &format!("follow=1&after={}", 25 * MB))).await?;
    let first = follower.next().await?;
    let begins = |payload: &protocol::Payload| payload.data.starts_with(&format!("{:063}\n", 0));
    ensure!(
        matches!(&first, Some(Chunk::Output { offset, payload, .. }) if *offset == 25 * MB && begins(payload))
    );
    sandbox.stop().await
}

/// Returns the size of all files below a directory.
fn disk_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() { disk_bytes(&entry.path())? } else { meta.len() };
    }
    Ok(bytes)
}

#[tokio::test]
async fn logs_of_services_that_are_gone_count_and_go_first() -> Result<()> {
    let sandbox = Sandbox::start_with(&["RUNTIMED_LOG_BUDGET_MB=16"]).await?;
    let mut services = Services::of(&sandbox).await?;
    let write = |mb: u64| format!("head -c {} /dev/zero", mb * MB);
    let logs = sandbox.control_dir().join("services");
    services.put(json!([{"name": "stays", "command": write(3), "restart": "never"}])).await?;
    services.state("stays", "stopped").await?;
    for i in 0..scaled(5, 30) {
        let gone = format!("gone-{i}");
        let specs = json!([
            {"name": "stays", "command": write(3), "restart": "never"},
            {"name": gone, "command": write(6), "restart": "never"},
        ]);
        services.put(specs).await?;
        services.state(&gone, "stopped").await?;
        ensure!(disk_bytes(&logs)? <= 16 * MB + FILE_MAX_BYTES, "{} on disk", disk_bytes(&logs)?);
    }
    ensure!(disk_bytes(&logs.join("stays"))? >= 3 * MB, "what is there keeps its log");

    // The same holds after a boot, before the first read.
    let sandbox = sandbox.crash_and_boot().await?;
    let mut services = Services::of(&sandbox).await?;
    services.put(json!([{"name": "next", "command": write(13), "restart": "never"}])).await?;
    services.state("next", "stopped").await?;
    ensure!(disk_bytes(&logs)? <= 16 * MB + FILE_MAX_BYTES, "{} on disk", disk_bytes(&logs)?);
    sandbox.stop().await
}

#[tokio::test]
async fn a_name_that_comes_back_goes_on_with_its_log_and_too_many_names_are_forgotten() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let set = |names: std::ops::Range<u32>| -> Value {
        let spec = |i: u32| json!({"name": format!("s{i}"), "command": "echo hello", "restart": "never"});
        names.map(spec).collect()
    };
    for names in [0..64, 64..128, 128..129] {
        services.put(set(names.clone())).await?;
        for i in names {
            services.state(&format!("s{i}"), "stopped").await?;
        }
    }
    let kept = std::fs::read_dir(sandbox.control_dir().join("services"))?.count();
    ensure!(kept <= 65, "{kept} logs are kept");
    services.put(set(127..129)).await?;
    services.state("s127", "stopped").await?;
    let log = services.prints("s127", |log| log.len() >= 12).await?;
    ensure!(log == "hello\nhello\n", "{log}");
    sandbox.stop().await
}

#[tokio::test]
async fn a_log_of_many_short_runs_takes_a_bounded_number_of_files() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    services.put(json!([{"name": "web", "command": "echo once", "restart": "never"}])).await?;
    let runs = scaled(300, 3_000);
    for _ in 1..runs {
        services.state("web", "stopped").await?;
        services.drive("web", "start").await?;
    }
    services.state("web", "stopped").await?;
    let files = std::fs::read_dir(sandbox.control_dir().join("services/web"))?.count();
    ensure!(files <= 2 * 256, "{files} files");
    let log = text(&sandbox, "").await?;
    ensure!(log.len() >= 200 * "once\n".len() && log.ends_with("once\n"), "{} bytes", log.len());
    sandbox.stop().await
}

#[tokio::test]
async fn followers_see_every_byte_once_across_restarts_and_kills() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    // Numbers on both streams; a new run goes on counting where the file says. It is ready once it began.
    let count = r#"n=$(cat n 2>/dev/null || echo 0); echo "run $n"; while :; do
        n=$((n+1)); echo $n > n.tmp; mv n.tmp n; echo "out $n"; echo "err $n" >&2; done"#;
    let health = json!({"log": "^out"});
    services.put(json!([{"name": "web", "command": count, "health": health}])).await?;
    services.state("web", "ready").await?;
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..4 {
        let client = sandbox.client().clone();
        tasks.spawn(async move {
            let mut seen = Followed::default();
            // Some hang up again and again.
            let patience = if i % 2 == 0 { usize::MAX } else { 7 };
            loop {
                let query = format!("follow=1&after={}", seen.cursor);
                let mut follower = Follower::open(&client, &path("web", &query)).await?;
                for _ in 0..patience {
                    let Some(chunk) = follower.next().await? else { break };
                    seen.add(&chunk)?;
                    if seen.stdout.ends_with(b"fin\n") {
                        return anyhow::Ok(seen);
                    }
                }
            }
        });
    }
    for round in 0..scaled(6, 100) {
        match round % 3 {
            0 => drop(services.drive("web", "restart").await?),
            1 => {
                let pid = services.view("web").await?.pid.context("it runs")?;
                sandbox.client().exec(json!({"argv": ["kill", "-KILL", pid.to_string()]})).await?;
                services.state("web", "backoff").await?;
                services.drive("web", "start").await?;
            }
            _ => {
                services.drive("web", "stop").await?;
                services.state("web", "stopped").await?;
                services.drive("web", "start").await?;
            }
        }
        services.state("web", "ready").await?;
    }
    services
        .put(json!([{"name": "web", "command": "echo fin; exec sleep 1000", "health": {"log": "fin"}}]))
        .await?;
    services.view_until("web", |view| view.command.contains("fin") && kind(&view.state) == "ready").await?;
    let all = text(&sandbox, "").await?;
    while let Some(seen) = tasks.join_next().await {
        let seen = seen??;
        ensure!(seen.lost == 0 && seen.cursor == all.len() as u64, "{} of {} bytes", seen.cursor, all.len());
        ensure!(seen.stdout.len() + seen.stderr.len() == all.len());
        in_order(&String::from_utf8(seen.stdout)?)?;
    }
    sandbox.stop().await
}

/// Every number once, in its order, but for lines that were cut when their writer was killed.
fn in_order(text: &str) -> Result<()> {
    let mut last = 0;
    let mut runs: BTreeMap<u32, u32> = BTreeMap::new();
    for line in text.lines().filter(|line| *line != "fin") {
        let (word, number) = line.split_once(' ').with_context(|| format!("{line:?}"))?;
        let number: u32 = number.parse().with_context(|| format!("{line:?}"))?;
        match word {
            "run" => *runs.entry(number).or_default() += 1,
            _ => {
                ensure!(number > last, "{number} after {last}");
                last = number;
            }
        }
    }
    ensure!(runs.len() > 3, "{runs:?}");
    Ok(())
}

#[tokio::test]
async fn a_follower_of_a_service_that_is_removed_gets_all_of_it_and_the_end() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let command = "trap 'echo bye; exit' TERM; echo hello; while :; do sleep 0.02; done";
    services.put(json!([{"name": "web", "command": command}])).await?;
    let mut seen = Followed::default();
    let mut follower = Follower::open(sandbox.client(), &path("web", "follow=1")).await?;
    while seen.stdout != b"hello\n" {
        seen.add(&follower.next().await?.context("the stream ended")?)?;
    }
    services.put(json!([])).await?;
    services.removed("web").await?;
    while let Some(chunk) = follower.next().await? {
        seen.add(&chunk)?;
    }
    ensure!(seen.stdout == b"hello\nbye\n" && seen.ended, "{seen:?}");
    sandbox.stop().await
}
