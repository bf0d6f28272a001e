//! hostd against dockerd and against crun by itself: making a sandbox, running in it, taking it away; alone,
//! together, and with many alive.

use crate::{
    bare_crun::BareCrun,
    docker::Docker,
    idle_machine::calm,
    row::{Goal, Row, median, ms, ratio},
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::{Caller, Hostd, scaled};

const MB: f64 = 1_048_576.0;

pub async fn rows() -> Result<Vec<Row>> {
    let docker = Docker::start()?;
    let hostd = start().await?;
    let caller = hostd.local();
    // The first of each is slower than all others: not what anybody waits for twice.
    caller.delete(&format!("/v1/sandboxes/{}", caller.create(&spec()).await?)).await?;
    docker.run_true()?;
    let mut rows = vec![until_pid_1_answers(&caller).await?];
    rows.extend(single(&docker, &caller).await?);
    rows.push(together(&docker, &caller).await?);
    rows.push(at_once(&caller).await?);
    hostd.stop().await?;
    Ok(rows)
}

async fn start() -> Result<Hostd> {
    start_with(&[("SLIPWAY_LOG", "warn")]).await
}

/// On a disk, as it would be.
pub async fn start_with(variables: &[(&str, &str)]) -> Result<Hostd> {
    let dir = tempfile::Builder::new().prefix("bench-hostd-").tempdir_in("/var/tmp")?;
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711))?;
    let data = dir.path().join("data");
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Hostd::start_in(dir, data, variables.collect()).await
}

pub fn spec() -> Value {
    json!({"limits": {"memory_mb": 512, "pids": 512}})
}

pub async fn exec_true(caller: &Caller, id: &str) -> Result<()> {
    let path = format!("/v1/sandboxes/{id}/execs");
    let exec: Value = caller.post(&path, &json!({"argv": ["true"]})).await?.expect(200)?;
    ensure!(exec["exit"]["code"] == 0, "{exec}");
    Ok(())
}

/// A create through the API, with all that is written down and checked, against crun alone.
async fn until_pid_1_answers(caller: &Caller) -> Result<Row> {
    let mut bare = BareCrun::start().await?;
    bare.run().await?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..scaled(25, 100) {
        calm().await?;
        let started = Instant::now();
        let id = caller.create(&spec()).await?;
        ours.push(started.elapsed());
        calm().await?;
        theirs.push(bare.run().await?);
        remove(caller, vec![id]).await?;
    }
    let (ours, theirs) = (median(ours), median(theirs));
    Ok(Row {
        what: "create until PID 1 answers".into(),
        ours: ms(ours),
        other: format!("crun run, bare {}", ms(theirs)),
        ratio: ratio(ours, theirs),
        goal: Goal::AtMost(1.0),
    })
}

/// Measures sequential calls of one client.
async fn single(docker: &Docker, caller: &Caller) -> Result<Vec<Row>> {
    let (mut create, mut run) = (Vec::new(), Vec::new());
    let (mut exec, mut docker_exec) = (Vec::new(), Vec::new());
    let (mut remove, mut docker_remove) = (Vec::new(), Vec::new());
    for _ in 0..scaled(15, 100) {
        calm().await?;
        let started = Instant::now();
        let id = caller.create(&spec()).await?;
        exec_true(caller, &id).await?;
        create.push(started.elapsed());
        calm().await?;
        run.push(docker.run_true()?);

        let container = docker.run_sleep()?;
        for _ in 0..3 {
            calm().await?;
            let started = Instant::now();
            exec_true(caller, &id).await?;
            exec.push(started.elapsed());
            calm().await?;
            docker_exec.push(docker.exec_true(&container)?);
        }
        calm().await?;
        let started = Instant::now();
        caller.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
        remove.push(started.elapsed());
        calm().await?;
        docker_remove.push(docker.remove(&container)?);
    }
    let against = |what: &'static str, ours: Vec<Duration>, theirs: Vec<Duration>, verb: &str, goal| {
        let (ours, theirs) = (median(ours), median(theirs));
        Row {
            what: what.into(),
            ours: ms(ours),
            other: format!("{verb} {}", ms(theirs)),
            ratio: ratio(ours, theirs),
            goal,
        }
    };
    Ok(vec![
        against("create and exec true, cold", create, run, "docker run", Goal::AtMost(1.0 / 15.0)),
        against("exec true through the API", exec, docker_exec, "docker exec", Goal::AtMost(1.0 / 25.0)),
        against("destroy", remove, docker_remove, "docker rm -f", Goal::AtMost(1.0)),
    ])
}

/// Four callers, as fast as they can.
async fn together(docker: &Docker, caller: &Caller) -> Result<Row> {
    let count = scaled(40, 400);
    let started = Instant::now();
    let made: Vec<String> = parallel(4, count, |_| async { caller.create(&spec()).await }).await?;
    let ours = count as f64 / started.elapsed().as_secs_f64();
    remove(caller, made).await?;
    let (count, started) = (scaled(12, 60), Instant::now());
    std::thread::scope(|scope| {
        let one = || (0..count / 4).try_for_each(|_| docker.run_true().map(drop));
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })?;
    let theirs = count as f64 / started.elapsed().as_secs_f64();
    Ok(Row {
        what: "creates a second, four callers".into(),
        ours: format!("{ours:.0}/s"),
        other: format!("docker run {theirs:.1}/s"),
        ratio: ours / theirs,
        goal: Goal::AtLeast(15.0),
    })
}

async fn at_once(caller: &Caller) -> Result<Row> {
    let made = parallel(100, 100, |_| async { caller.create(&spec()).await }).await?;
    let count = made.len() as f64;
    remove(caller, made).await?;
    Ok(Row {
        what: "100 creates at once, that succeed".into(),
        ours: format!("{count:.0}"),
        other: "asked for 100".to_owned(),
        ratio: count / 100.0,
        goal: Goal::AtLeast(1.0),
    })
}

/// Many alive: the next create, and what each costs.
pub async fn density() -> Result<Vec<Row>> {
    let hostd = start().await?;
    let caller = hostd.local();
    caller.create(&spec()).await?;
    let (mut rows, mut alive, mut first) = (Vec::new(), 1, None);
    let before = available_bytes()?;
    for level in [1, 100, scaled(200, 500), scaled(300, 1000)] {
        let more = level - alive;
        parallel(4, more, |_| async { caller.create(&spec()).await }).await?;
        alive = level;
        let next = next_create(&caller).await?;
        let base = *first.get_or_insert(next);
        rows.push(Row {
            what: format!("the next create, {level} alive").into(),
            ours: ms(next),
            other: format!("1 alive {}", ms(base)),
            ratio: ratio(next, base),
            goal: Goal::AtMost(2.0),
        });
    }
    let each_mb = (before - available_bytes()?) / (alive - 1) as f64 / MB;
    let rss_mb = rss_bytes(hostd.pid()?.as_raw())? / MB;
    rows.push(bound("memory of the host per idle sandbox", each_mb, 3.0));
    rows.push(bound("hostd's own memory, per sandbox", rss_mb / alive as f64, 1.0));
    Ok(rows)
}

fn bound(what: &'static str, mb: f64, bound_mb: f64) -> Row {
    let ratio = mb / bound_mb;
    Row {
        what: what.into(),
        ours: format!("{mb:.2} MB"),
        other: format!("bound {bound_mb} MB"),
        ratio,
        goal: Goal::AtMost(1.0),
    }
}

/// The median of a few, each taken away again.
async fn next_create(caller: &Caller) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..scaled(15, 30) {
        let started = Instant::now();
        let id = caller.create(&spec()).await?;
        times.push(started.elapsed());
        remove(caller, vec![id]).await?;
    }
    Ok(median(times))
}

/// `count` calls, at most `width` at a time.
pub async fn parallel<F>(width: usize, count: usize, call: impl Fn(usize) -> F) -> Result<Vec<String>>
where
    F: Future<Output = Result<String>>,
{
    use futures_util::{StreamExt, TryStreamExt};
    futures_util::stream::iter((0..count).map(call)).buffer_unordered(width).try_collect().await
}

pub async fn remove(caller: &Caller, ids: Vec<String>) -> Result<()> {
    let delete = |at: usize| {
        let path = format!("/v1/sandboxes/{}", ids[at]);
        async move {
            caller.delete(&path).await?.expect::<Value>(200)?;
            Ok(String::new())
        }
    };
    parallel(4, ids.len(), delete).await.map(drop)
}

fn available_bytes() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:")).context("MemAvailable")?;
    let kib: f64 = line.split_whitespace().nth(1).context("a number")?.parse()?;
    Ok(kib * 1024.0)
}

pub fn rss_bytes(pid: i32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).context("VmRSS")?;
    let kib: f64 = line.split_whitespace().nth(1).context("a number")?.parse()?;
    Ok(kib * 1024.0)
}
