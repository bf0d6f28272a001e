//! Everything goes wrong at once: hostd is killed again and again, viewers come and go, sandboxes are stopped,
//! frozen and killed, the disk is full. In the end every viewer of a task has seen the same, each event once,
//! up to `done`; and that is what the log says.

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use nix::sys::signal::{Signal, kill};
use protocol::api::TaskEventView;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tests::host::{all_events, until};
use tests::launch::directory;
use tests::small_disk::SmallDisk;
use tests::{Caller, FlakyViewer, Hostd, Job, Random, messages, scaled};
use tokio::time::sleep;

const SANDBOXES: usize = 3;
const VIEWERS: usize = 4;

/// A task that says its numbers, and how many there are.
struct Counting {
    job: Job,
    lines: usize,
    /// As all its viewers saw them.
    events: Vec<TaskEventView>,
}

/// The load of one sandbox: one task after another, each with its viewers.
struct SandboxLoad {
    caller: Caller,
    sandbox: String,
    random: Random,
    tasks: Vec<Counting>,
}

/// How much there was.
#[derive(Default)]
struct Tally {
    cuts: AtomicUsize,
    kills: AtomicUsize,
    fills: AtomicUsize,
    acts: AtomicUsize,
}

impl SandboxLoad {
    async fn go_on(&mut self, tally: &Tally, enough: usize) -> Result<()> {
        while tally.cuts.load(Ordering::Relaxed) < enough || self.tasks.len() < 2 {
            let lines = 50 + self.random.below(400) as usize;
            let job = self.submit(lines).await?;
            let viewers =
                (0..VIEWERS).map(|_| FlakyViewer::new(&self.caller, &job, self.random.branch()).follow());
            let seen = try_join_all(viewers.collect::<Vec<_>>()).await?;
            let cuts = seen.iter().map(|viewer| viewer.cuts).sum();
            tally.cuts.fetch_add(cuts, Ordering::Relaxed);
            let mut seen = seen.into_iter().map(|viewer| viewer.events);
            let events = seen.next().context("a viewer")?;
            for other in seen {
                ensure!(other == events, "viewers of {} differ", job.path());
            }
            self.tasks.push(Counting { job, lines, events });
        }
        Ok(())
    }

    /// Until it is answered. The id makes it one task, however often that takes.
    async fn submit(&mut self, lines: usize) -> Result<Job> {
        let id = format!("task-{}", self.tasks.len());
        let (every, pause) = (1 + self.random.below(60), 5 + self.random.below(40));
        let line = format!(
            "i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo $i; \
             [ $((i % {every})) = 0 ] && sleep 0.{pause:03}; done; true"
        );
        let body = json!({"id": id, "prompt": "count", "command": ["sh", "-c", line], "build": ""});
        let path = format!("/v1/sandboxes/{}", self.sandbox);
        until("the task is taken down", async || {
            match self.caller.post(&format!("{path}/tasks"), &body).await {
                Ok(reply) if reply.status == 202 => return Ok(Some(())),
                // The sandbox died and must be started again.
                Ok(_) => drop(self.caller.post(&format!("{path}/start"), &json!({})).await),
                Err(_) => {}
            }
            Ok(None)
        })
        .await?;
        Ok(Job { sandbox: self.sandbox.clone(), id })
    }
}

/// Injects every kind of fault.
struct FaultInjector {
    hostd: Hostd,
    disk: SmallDisk,
    sandboxes: Vec<String>,
    random: Random,
}

impl FaultInjector {
    async fn go_on(&mut self, tally: &Tally, over: &AtomicBool) -> Result<()> {
        while !over.load(Ordering::Relaxed) {
            self.moments(300).await;
            tally.acts.fetch_add(1, Ordering::Relaxed);
            let sandbox = self.sandboxes[self.random.below(self.sandboxes.len() as u64) as usize].clone();
            match self.random.below(12) {
                0..4 => {
                    tally.kills.fetch_add(1, Ordering::Relaxed);
                    self.hostd.crash().await?;
                }
                4 => {
                    tally.fills.fetch_add(1, Ordering::Relaxed);
                    self.fill().await?;
                }
                5 => self.kill_init(&sandbox)?,
                6 => self.verb(&sandbox, "stop").await?,
                7 => self.verb(&sandbox, "pause").await?,
                8..10 => self.verb(&sandbox, "resume").await?,
                _ => self.verb(&sandbox, "start").await?,
            }
        }
        Ok(())
    }

    async fn moments(&mut self, most_ms: u64) {
        sleep(Duration::from_millis(self.random.below(most_ms))).await;
    }

    /// No space for a while; perhaps hostd dies of something else meanwhile, perhaps it is started again too
    /// early.
    async fn fill(&mut self) -> Result<()> {
        self.disk.fill()?;
        self.moments(400).await;
        let dies = self.random.below(2) == 0;
        if dies {
            self.hostd.kill().await?;
            if self.random.below(2) == 0 {
                // The start may fail; then the next one must succeed.
                let _ = self.hostd.crash().await;
                self.moments(200).await;
            }
        }
        self.disk.empty()?;
        if dies { self.hostd.crash().await } else { Ok(()) }
    }

    fn kill_init(&self, sandbox: &str) -> Result<()> {
        // The pid of a dead process may have been reused.
        if let Ok(init) = self.hostd.init(sandbox)
            && self.hostd.processes()?.contains(&init.as_raw())
        {
            let _ = kill(init, Signal::SIGKILL);
        }
        Ok(())
    }

    async fn verb(&self, sandbox: &str, verb: &str) -> Result<()> {
        let path = format!("/v1/sandboxes/{sandbox}/{verb}?wait=0");
        let reply = self.hostd.local().post(&path, &json!({})).await?;
        ensure!(reply.status < 500, "{verb}: {} {}", reply.status, reply.text());
        Ok(())
    }
}

/// Its numbers in order, and none missing that was not told to be: where it happened, or at the end.
fn counted(task: &Counting) -> Result<()> {
    let said: Vec<usize> =
        messages(&task.events).iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    ensure!(said.windows(2).all(|pair| pair[0] < pair[1]), "{said:?}");
    let result = &task.events.last().context("done")?.fact["result"];
    let whole = if result["status"] == "succeeded" { task.lines } else { said.last().copied().unwrap_or(0) };
    let missing: Vec<usize> = (1..=whole).filter(|number| said.binary_search(number).is_err()).collect();
    let missing_bytes: usize = missing.iter().map(|number| number.to_string().len() + 1).sum();
    let told: u64 = task.events.iter().filter_map(|event| event.fact.get("lost_events")?.as_u64()).sum();
    let hints = result["hints"].as_array().into_iter().flatten();
    let hinted: u64 =
        hints.filter(|hint| hint["kind"] == "output_lost").filter_map(|hint| hint["bytes"].as_u64()).sum();
    let known = missing.len() as u64 <= told || missing_bytes as u64 <= hinted;
    ensure!(known, "{missing:?} of {whole} are missing, {told} are told: {result}");
    let known = result["status"] == "succeeded"
        || result["failure_reason"] == "lost"
        || result["failure_reason"] == "sandbox_failed";
    ensure!(known, "{result}");
    Ok(())
}

/// The log as a whole: no number missing or twice, no event of a sandbox twice, and in it every task as it
/// was seen.
fn in_the_log(events: &[Value], tasks: &[&Counting]) -> Result<()> {
    let mut origins = BTreeSet::new();
    let mut of_tasks: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
    for (event, expected) in events.iter().zip(1_u64..) {
        ensure!(event["seq"] == expected, "{expected} is {event}");
        let sandbox = event["sandbox"].as_str().context("a sandbox")?;
        if let Some(origin) = event["origin"].as_str() {
            ensure!(origins.insert((sandbox, origin)), "twice: {event}");
        }
        if let Some(task) = event["task"].as_str() {
            of_tasks.entry((sandbox, task)).or_default().push(expected);
        }
    }
    ensure!(of_tasks.len() == tasks.len(), "{} tasks in place of {}", of_tasks.len(), tasks.len());
    for Counting { job, events, .. } in tasks {
        let seen: Vec<u64> = events.iter().map(|event| event.seq).collect();
        ensure!(of_tasks.get(&(&job.sandbox, &job.id)) == Some(&seen), "{} differs in the log", job.path());
    }
    Ok(())
}

#[tokio::test]
async fn through_chaos_every_viewer_sees_each_event_once_and_all_of_them_the_same() -> Result<()> {
    let mut random = Random::seeded();
    // Dropped last, after hostd and the mount.
    let outside = directory()?;
    let data = outside.path().join("data");
    let disk = SmallDisk::mount(&data, scaled(48, 160))?;
    let hostd = Hostd::start_in(directory()?, data, vec![]).await?;
    let caller = hostd.local();
    let spec = json!({});
    let sandboxes = try_join_all((0..SANDBOXES).map(|_| caller.create(&spec))).await?;
    let mut work: Vec<SandboxLoad> = sandboxes
        .iter()
        .map(|sandbox| (sandbox.clone(), random.branch()))
        .map(|(sandbox, random)| SandboxLoad { caller: caller.clone(), sandbox, random, tasks: vec![] })
        .collect();
    let mut torment = FaultInjector { hostd, disk, sandboxes, random };
    let (tally, over) = (Tally::default(), AtomicBool::new(false));
    let working = async {
        try_join_all(work.iter_mut().map(|one| one.go_on(&tally, scaled(400, 10_000)))).await?;
        over.store(true, Ordering::Relaxed);
        Ok(())
    };
    let ended = tokio::try_join!(working, torment.go_on(&tally, &over));
    eprintln!("{:?}", (&tally.cuts, &tally.kills, &tally.fills, &tally.acts));
    ended.with_context(|| torment.hostd.said())?;

    torment.hostd.crash().await?;
    let tasks: Vec<&Counting> = work.iter().flat_map(|one| &one.tasks).collect();
    for task in &tasks {
        counted(task).with_context(|| task.job.path())?;
        ensure!(caller.pages_of(&task.job).await? == task.events, "{} differs", task.job.path());
        ensure!(caller.events_of(&task.job).await? == task.events, "{} is told otherwise", task.job.path());
    }
    in_the_log(&all_events(&caller).await?, &tasks)
}
