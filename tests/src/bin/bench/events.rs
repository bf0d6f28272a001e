//! Events of a task on their way from the agent to viewers: durable, and against a server that keeps nothing.

use crate::{
    counting_viewer::{CountingViewer, ViewerSamples, span},
    host::{spec, start_with},
    idle_machine::calm,
    plain_sse::PlainSse,
    row::{Goal, Row, median, ms, ratio},
};
use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use serde_json::json;
use std::time::{Duration, Instant};
use tests::{Caller, Hostd, Job, TcpViewer, scaled};
use tokio::task::JoinSet;

const LINES: usize = 50_000;
/// The reference system on such a machine: events a second to one viewer, and to fifty together.
const REFERENCE_ONE: f64 = 19_700.0;
const REFERENCE_ALL: f64 = 62_000.0;
const STAMPS: usize = 100;

struct Bench {
    hostd: Hostd,
    caller: Caller,
    sandbox: String,
}

pub async fn rows() -> Result<Vec<Row>> {
    let hostd = start_with(&[("SLIPWAY_LOG", "warn")]).await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&spec()).await?;
    let bench = Bench { hostd, caller, sandbox };
    // First: afterwards there is memory left over from others.
    let memory = bench.memory(1_000).await?;
    let mut rows = bench.one_viewer().await?;
    for viewers in [50, 1_000] {
        rows.extend(bench.many_viewers(viewers).await?);
    }
    rows.push(bench.delay(1_000).await?);
    rows.push(memory);
    rows.push(bench.submit().await?);
    let Bench { hostd, caller, sandbox } = bench;
    caller.delete(&format!("/v1/sandboxes/{sandbox}")).await?;
    hostd.stop().await?;
    Ok(rows)
}

fn seq(lines: usize) -> [String; 4] {
    let format = "a line that is about as long as those that agents print %.0f";
    ["seq".to_owned(), "-f".to_owned(), format.to_owned(), lines.to_string()]
}

impl Bench {
    /// A task that waits until it is let go: viewers come first.
    async fn waiting(&self, argv: &[String]) -> Result<Job> {
        let mut command = vec!["sh".to_owned(), "-c".to_owned()];
        command.push("rm -f go; mkfifo go; read x < go; exec \"$@\"".to_owned());
        command.push("sh".to_owned());
        command.extend_from_slice(argv);
        let body = json!({"prompt": "print", "command": command, "build": ""});
        let job = self.caller.submit(&self.sandbox, &body).await?;
        self.caller.reaches(&job, "agent").await?;
        Ok(job)
    }

    async fn go(&self) -> Result<()> {
        let line = "while ! [ -p go ]; do sleep 0.01; done; echo go > go";
        self.caller.prints(&self.sandbox, line).await.map(|_| ())
    }

    fn viewer(&self, job: &Job) -> TcpViewer {
        self.caller.viewer(&job.events())
    }

    /// Lets an agent print to viewers that wait for it, and says when each had it all.
    async fn show(&self, lines: usize, viewers: usize) -> Result<Vec<ViewerSamples>> {
        let job = self.waiting(&seq(lines)).await?;
        let watchers = open(&self.viewer(&job), viewers).await?;
        let watching = watch(watchers, lines);
        let (watched, gone) = tokio::join!(watching, self.go());
        gone?;
        watched
    }

    async fn one_viewer(&self) -> Result<Vec<Row>> {
        let plain = PlainSse::start()?;
        let argv = seq(LINES);
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let (mut ours, mut theirs, mut replays) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..scaled(5, 15) {
            calm().await?;
            ours.push(span(&self.show(LINES, 1).await?));
            calm().await?;
            let watching = watch(open(&plain.viewer(), 1).await?, LINES);
            let (watched, ran) = tokio::join!(watching, plain.run(&argv));
            ran?;
            theirs.push(span(&watched?));
            calm().await?;
            replays.push(self.replay().await?);
        }
        let (ours, theirs, replay) = (median(ours), median(theirs), median(replays));
        let rate = |time: Duration| LINES as f64 / time.as_secs_f64();
        let row = |what: &'static str, time: Duration, other: String, ratio: f64, goal| Row {
            what: what.into(),
            ours: per_s(rate(time)),
            other,
            ratio,
            goal,
        };
        let bare = format!("plain hyper, no log {}", per_s(rate(theirs)));
        let reference = format!("reference {}", per_s(REFERENCE_ONE));
        Ok(vec![
            row("50,000 lines to one viewer", ours, bare.clone(), ratio(theirs, ours), Goal::AtLeast(0.3)),
            row("  the same", ours, reference, rate(ours) / REFERENCE_ONE, Goal::AtLeast(10.0)),
            row("50,000 lines again, from the log", replay, bare, ratio(theirs, replay), Goal::AtLeast(1.0)),
        ])
    }

    /// All events of the newest task, from the beginning.
    async fn replay(&self) -> Result<Duration> {
        let path = format!("/v1/sandboxes/{}/tasks?limit=1", self.sandbox);
        let list: serde_json::Value = self.caller.get(&path).await?.expect(200)?;
        let id = list["items"][0]["id"].as_str().context("a task")?.to_owned();
        let job = Job { sandbox: self.sandbox.clone(), id };
        let started = Instant::now();
        CountingViewer::open(&self.viewer(&job)).await?.count(LINES).await?;
        Ok(started.elapsed())
    }

    async fn many_viewers(&self, viewers: usize) -> Result<Vec<Row>> {
        let events = 2_000;
        let plain = PlainSse::start()?;
        let argv = seq(events);
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..scaled(3, 9) {
            calm().await?;
            ours.push(span(&self.show(events, viewers).await?));
            calm().await?;
            let watching = watch(open(&plain.viewer(), viewers).await?, events);
            let (watched, ran) = tokio::join!(watching, plain.run(&argv));
            ran?;
            theirs.push(span(&watched?));
        }
        let (ours, theirs) = (median(ours), median(theirs));
        let rate = |time: Duration| (events * viewers) as f64 / time.as_secs_f64();
        let what = format!("2,000 events to {viewers} viewers");
        let other = format!("plain hyper, no log {}", per_s(rate(theirs)));
        let against = format!("reference, 50 viewers {}", per_s(REFERENCE_ALL));
        let times = rate(ours) / REFERENCE_ALL;
        Ok(vec![
            Row {
                what: what.into(),
                ours: per_s(rate(ours)),
                other,
                ratio: ratio(theirs, ours),
                goal: Goal::AtLeast(1.0),
            },
            Row {
                what: "  the same".into(),
                ours: per_s(rate(ours)),
                other: against,
                ratio: times,
                goal: Goal::AtLeast(10.0),
            },
        ])
    }

    /// From the moment the agent prints to the last of its viewers, one event at a time.
    async fn delay(&self, viewers: usize) -> Result<Row> {
        // The agent stays for a while, so that the disconnection of a thousand viewers is not measured.
        let script = format!(
            "import sys, time\nfor i in range({STAMPS}):\n time.sleep(0.05)\n print('made at', time.time_ns(), flush=True)\ntime.sleep(0.5)"
        );
        let argv = ["python3".to_owned(), "-c".to_owned(), script];
        let job = self.waiting(&argv).await?;
        let watchers = open(&self.viewer(&job), viewers).await?;
        let (ours, gone) = tokio::join!(delays(watchers), self.go());
        gone?;
        let plain = PlainSse::start()?;
        let watchers = open(&plain.viewer(), viewers).await?;
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let (theirs, ran) = tokio::join!(delays(watchers), plain.run(&argv));
        ran?;
        let (ours, theirs) = (p99(ours?), p99(theirs?));
        Ok(Row {
            what: format!("printed until seen, {viewers} viewers, p99").into(),
            ours: ms(ours),
            other: format!("plain hyper, no log {}", ms(theirs)),
            ratio: ratio(ours, theirs),
            goal: Goal::AtMost(2.0),
        })
    }

    async fn memory(&self, viewers: usize) -> Result<Row> {
        let job = self.waiting(&seq(1)).await?;
        let before = self.rss_kb()?;
        let watchers = open(&self.viewer(&job), viewers).await?;
        let each = (self.rss_kb()? - before) / viewers as f64;
        let (watched, gone) = tokio::join!(watch(watchers, 1), self.go());
        watched?;
        gone?;
        const BOUND_KB: f64 = 64.0;
        Ok(Row {
            what: "memory of hostd for a viewer".into(),
            ours: format!("{each:.1} KB"),
            other: format!("bound {BOUND_KB} KB"),
            ratio: each / BOUND_KB,
            goal: Goal::AtMost(1.0),
        })
    }

    fn rss_kb(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.hostd.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    /// A task that is written down, against one commit of SQLite on the same disk.
    async fn submit(&self) -> Result<Row> {
        let commit = tempfile::Builder::new().prefix("bench-commit-").tempdir_in("/var/tmp")?;
        let db = rusqlite::Connection::open(commit.path().join("db"))?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.execute_batch("CREATE TABLE rows (number INTEGER PRIMARY KEY, text TEXT)")?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..scaled(50, 500) {
            let body = json!({"prompt": "x", "command": ["true"], "build": ""});
            let started = Instant::now();
            let job = self.caller.submit(&self.sandbox, &body).await?;
            ours.push(started.elapsed());
            self.caller.events_of(&job).await?;
            calm().await?;
            let started = Instant::now();
            db.execute("INSERT INTO rows VALUES (?, ?)", (round as i64, "x".repeat(300)))?;
            theirs.push(started.elapsed());
        }
        let (ours, theirs) = (median(ours), median(theirs));
        Ok(Row {
            what: "submit a task".into(),
            ours: ms(ours),
            other: format!("one SQLite commit {}", ms(theirs)),
            ratio: ratio(ours, theirs),
            goal: Goal::AtMost(3.0),
        })
    }
}

async fn open(to: &TcpViewer, viewers: usize) -> Result<Vec<CountingViewer>> {
    try_join_all((0..viewers).map(|_| CountingViewer::open(to))).await
}

async fn watch(watchers: Vec<CountingViewer>, events: usize) -> Result<Vec<ViewerSamples>> {
    let mut set: JoinSet<Result<ViewerSamples>> =
        watchers.into_iter().map(|each| each.count(events)).collect();
    let mut all = Vec::new();
    while let Some(watched) = set.join_next().await {
        all.push(watched??);
    }
    Ok(all)
}

async fn delays(watchers: Vec<CountingViewer>) -> Result<Vec<Duration>> {
    let mut set: JoinSet<Result<Vec<Duration>>> =
        watchers.into_iter().map(|each| each.delays(STAMPS)).collect();
    let mut all = Vec::new();
    while let Some(delays) = set.join_next().await {
        all.extend(delays??);
    }
    Ok(all)
}

fn p99(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples.get(samples.len() * 99 / 100).copied().unwrap_or_default()
}

fn per_s(rate: f64) -> String {
    if rate >= 1e6 { format!("{:.2}M/s", rate / 1e6) } else { format!("{:.0}k/s", rate / 1e3) }
}
