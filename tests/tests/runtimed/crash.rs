//! PID 1 dies without warning and boots again on what it left: nothing that was told is taken back, nothing
//! is told twice, and no file it finds keeps it from booting.

use anyhow::{Context, Result, ensure};
use hyper::Request;
use protocol::{Cursor, Event, ExecState, ExecView, Exit, Fact};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tests::events::{EventStream, events_after, events_so_far};
use tests::shell::{shell, started, stdout};
use tests::{Client, Followed, Random, Sandbox, follow, scaled};
use tokio::task::JoinSet;

async fn view(client: &Client, id: &str) -> Result<ExecView> {
    client.get(&format!("/v1/execs/{id}?wait_ms=0")).await?.json()
}

/// The events that say how an exec ended.
fn ends<'a>(events: &'a [Event], id: &str) -> Vec<&'a Exit> {
    let of = |event: &'a Event| match &event.fact {
        Fact::ExecEnded { exec, exit, .. } if exec.as_str() == id => Some(exit),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[tokio::test]
async fn what_ran_is_lost_once_and_what_had_ended_is_as_it_was() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    client.exec(json!({"id": "ended", "shell": "echo out; echo err >&2; exit 3"})).await?;
    started(client, "running", json!({"shell": "seq 1000; echo here; sleep 1000"}), "here").await?;
    let left = json!({"id": "left", "shell": "(setsid sleep 1000 >/dev/null 2>&1 &); exit 4"});
    client.exec(left).await?;
    // A pid belongs to the boot that gave it.
    let before = ExecView { pid: None, ..view(client, "ended").await? };
    for boot in 1..=3 {
        sandbox = sandbox.crash_and_boot().await?;
        let client = sandbox.client();
        let running = view(client, "running").await?;
        let printed: String = (1..=1000).map(|n| format!("{n}\n")).collect::<String>() + "here\n";
        ensure!(running.exit == Some(Exit::Lost) && stdout(&running)? == printed, "{running:?}");
        ensure!(view(client, "ended").await? == before, "{before:?} changed");
        let left = view(client, "left").await?;
        ensure!(left.exit == Some(Exit::Exited { code: 4 }) && left.background.is_empty(), "{left:?}");
        let events = events_so_far(client).await?;
        ensure!(ends(&events, "running") == [&Exit::Lost], "boot {boot}: {events:?}");
        ensure!(ends(&events, "ended") == [&Exit::Exited { code: 3 }], "boot {boot}: {events:?}");
        let seen = follow(client, "running", Followed::default()).await?;
        ensure!(seen.ended && seen.stdout == printed.as_bytes(), "following what is lost ends");
        // The id stays taken: repeating the request does not run the command again.
        let again = client.exec(json!({"id": "running", "shell": "seq 1000; echo here; sleep 1000"})).await?;
        ensure!(again.state == ExecState::Ended && again.exit == Some(Exit::Lost), "{again:?}");
    }
    sandbox.stop().await
}

/// Killed after the end of an exec was written down, and before anybody was told.
#[tokio::test]
async fn an_end_that_was_recorded_and_not_told_is_told_at_the_next_boot_once() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    sandbox.client().exec(json!({"id": "first", "shell": "exit 2"})).await?;
    sandbox.client().exec(json!({"id": "last", "shell": "exit 3"})).await?;
    sandbox.crash().await?;
    let file = newest_events(&sandbox.control_dir())?;
    let text = std::fs::read_to_string(&file)?;
    let (before, end) = text.trim_end().rsplit_once('\n').context("lines")?;
    ensure!(end.contains("exec.ended"), "{end}");
    std::fs::write(&file, format!("{before}\n"))?;
    sandbox = sandbox.boot_again().await?;
    for _ in 0..2 {
        let events = events_so_far(sandbox.client()).await?;
        ensure!(ends(&events, "first") == [&Exit::Exited { code: 2 }], "{events:?}");
        ensure!(ends(&events, "last") == [&Exit::Exited { code: 3 }], "{events:?}");
        sandbox = sandbox.crash_and_boot().await?;
    }
    sandbox.stop().await
}

#[tokio::test]
async fn cursors_go_on_in_a_new_epoch_and_an_old_one_gives_exactly_the_rest() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    let mut epochs = Vec::new();
    let mut cursors = vec![Cursor::default()];
    for _ in 0..4 {
        epochs.push(sandbox.client().status().await?.epoch);
        shell(sandbox.client(), "true").await?;
        let mut stream = EventStream::open_after(sandbox.client(), *cursors.last().context("one")?).await?;
        stream.until(|fact| matches!(fact, Fact::ExecEnded { .. })).await?;
        cursors.push(stream.cursor);
        sandbox = sandbox.crash_and_boot().await?;
    }
    ensure!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
    let all = events_so_far(sandbox.client()).await?;
    let boots = all.iter().filter(|event| event.fact.kind() == "boot").count();
    ensure!(boots == 5 && all.iter().filter(|event| event.cursor.seq == 1).count() == 5, "{all:?}");
    for cursor in all.iter().map(|event| event.cursor).chain(cursors) {
        let rest: Vec<&Event> = all.iter().filter(|event| event.cursor > cursor).collect();
        let got = events_after(sandbox.client(), cursor).await?;
        ensure!(got.iter().collect::<Vec<_>>() == rest, "after {cursor}");
    }
    sandbox.stop().await
}

/// The newest file of the event log.
fn newest_events(control: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(control.join("events"))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    files.pop().context("no event log")
}

/// Does something to the end of a file that a loss of power may do.
type Damage = fn(Vec<u8>) -> Vec<u8>;

/// A damage, and the number of last events it costs.
const DAMAGES: [(&str, usize, Damage); 7] = [
    ("the last byte is missing", 1, |mut bytes| {
        bytes.pop();
        bytes
    }),
    ("half of the last line is missing", 1, |bytes| bytes[..bytes.len() - 40].to_vec()),
    ("a byte of the last line is another", 1, |mut bytes| {
        let at = bytes.len() - 20;
        bytes[at] ^= 1;
        bytes
    }),
    ("garbage follows", 0, |bytes| [bytes, b"\xff\x00garbage\nmore".to_vec()].concat()),
    ("zeros follow", 0, |bytes| [bytes, vec![0; 5000]].concat()),
    ("a line follows that is none of ours", 0, |bytes| [bytes, b"00000000 9.9 boot {}\n".to_vec()].concat()),
    ("all of it is zeros", usize::MAX, |bytes| vec![0; bytes.len()]),
];

#[tokio::test]
async fn a_torn_end_of_the_event_log_is_cut_and_told_as_a_gap() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    for (what, taken, damage) in DAMAGES {
        shell(sandbox.client(), "true").await?;
        shell(sandbox.client(), "true").await?;
        let before = events_so_far(sandbox.client()).await?;
        let epoch = sandbox.client().status().await?.epoch;
        sandbox.crash().await?;
        let file = newest_events(&sandbox.control_dir())?;
        let mut bytes = std::fs::read(&file)?;
        // Reserved space for later lines is not part of the log.
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').context("lines")? + 1);
        std::fs::write(&file, damage(bytes))?;
        sandbox = sandbox.boot_again().await.context(what)?;
        let after = events_so_far(sandbox.client()).await?;
        let own = before.iter().filter(|event| event.cursor.epoch == epoch).count();
        let kept = before.len() - own.min(taken);
        ensure!(after[..kept] == before[..kept], "{what}: history changed");
        let (boot, gap) = (&after[kept], &after[kept + 1]);
        ensure!(boot.fact.kind() == "boot" && boot.cursor.epoch > epoch, "{what}: {boot:?}");
        ensure!(matches!(gap.fact, Fact::Gap { lost_bytes: 1.., .. }), "{what}: {gap:?}");
        // A reader that had seen the cut events continues after them, in the new epoch.
        let last = before.last().context("events")?.cursor;
        let rest = events_after(sandbox.client(), last).await?;
        ensure!(rest.first() == Some(boot), "{what}: {rest:?}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn an_orderly_end_leaves_no_gap() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    shell(sandbox.client(), "true").await?;
    sandbox.signal(nix::sys::signal::Signal::SIGTERM)?;
    sandbox.wait().await?;
    let sandbox = sandbox.boot_again().await?.crash_and_boot().await?;
    let events = events_so_far(sandbox.client()).await?;
    ensure!(!events.iter().any(|event| event.fact.kind() == "gap"), "{events:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn damaged_records_cost_what_they_held_and_never_a_boot() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    let mut random = Random::seeded();
    for round in 0..scaled(12, 300) {
        let id = format!("kept-{round}");
        sandbox.client().exec(json!({"id": id, "shell": "echo out; exit 3"})).await?;
        sandbox.crash().await?;
        let file = sandbox.control_dir().join("execs.log");
        let mut bytes = std::fs::read(&file)?;
        match random.below(4) {
            0 => bytes.truncate(random.below(bytes.len() as u64) as usize),
            1 => bytes.extend(random.bytes(300)),
            2 => {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            }
            _ => bytes.splice(0..0, random.bytes(100)).for_each(drop),
        }
        std::fs::write(&file, &bytes)?;
        sandbox = sandbox.boot_again().await.with_context(|| format!("round {round}"))?;
        ensure!(shell(sandbox.client(), "echo on").await? == "on\n");
        let execs: Vec<ExecView> = sandbox.client().get("/v1/execs?limit=1000").await?.json()?;
        let odd = execs.iter().find(|exec| exec.state != ExecState::Ended || exec.exit.is_none());
        ensure!(odd.is_none(), "{odd:?}");
    }
    sandbox.stop().await
}

/// Names that look like ours and are not, in every directory that is read at boot.
const STRANGERS: [&str; 14] = [
    "x",
    ".hidden",
    "events/x",
    "events/1-2.log",
    "events/+000000000000001-0000000000000001.log",
    "events/0000000000000001-0000000000000001.log.tmp",
    "events/0000000000000001-00000000000000zz.log",
    "events/ffffffffffffffff-ffffffffffffffff.log",
    "execs/x",
    "execs/..x",
    "execs/\u{e9}",
    "services/x",
    "services/web/x",
    "services/web/0000000000000000.log",
];

#[tokio::test]
async fn files_that_are_none_of_ours_are_no_obstacle() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    sandbox.client().exec(json!({"id": "kept", "shell": "echo out; exit 3"})).await?;
    for directories in [false, true] {
        sandbox.crash().await?;
        for name in STRANGERS {
            let path = sandbox.control_dir().join(name);
            std::fs::create_dir_all(path.parent().context("a directory")?)?;
            let _ = std::fs::remove_file(&path);
            if directories {
                std::fs::create_dir_all(&path)?;
            } else {
                std::fs::write(&path, "\u{0}stranger")?;
            }
        }
        sandbox = sandbox.boot_again().await?.crash_and_boot().await?;
        let client = sandbox.client();
        let service = json!({"name": "web", "command": "echo up; sleep 1000"});
        let answer = client.put("/v1/services", &json!({"services": [service]})).await?;
        ensure!(answer.status == 200, "{}", answer.text());
        let kept = view(client, "kept").await?;
        ensure!(kept.exit == Some(Exit::Exited { code: 3 }) && stdout(&kept)? == "out\n", "{kept:?}");
        ensure!(shell(client, "echo on").await? == "on\n");
        let events = events_so_far(client).await?;
        ensure!(ends(&events, "kept") == [&Exit::Exited { code: 3 }], "{events:?}");
        // The newest events are found, whatever else is there.
        let last = events.last().context("events")?;
        ensure!(last.cursor.epoch == client.status().await?.epoch, "{last:?}");
    }
    sandbox.stop().await
}

/// Replies that clients received before PID 1 was killed.
#[derive(Default)]
struct Replies {
    accepted: Vec<String>,
    ended: BTreeMap<String, Exit>,
}

#[tokio::test]
async fn killed_at_any_moment_it_keeps_every_promise_it_made() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    let mut random = Random::seeded();
    let mut told = Replies::default();
    for round in 0..scaled(8, 400) {
        if round % 10 == 0 {
            // Only so many finished execs are remembered.
            told = Replies::default();
        }
        let mut callers = JoinSet::new();
        for caller in 0..4 {
            callers.spawn(call(sandbox.client().clone(), format!("{round}-{caller}")));
        }
        let pause = std::time::Duration::from_micros(random.below(60_000));
        // A moment to be killed at, not something that is waited for.
        tokio::time::sleep(pause).await;
        sandbox.crash().await?;
        while let Some(heard) = callers.join_next().await {
            let heard = heard?;
            told.accepted.extend(heard.accepted);
            told.ended.extend(heard.ended);
        }
        sandbox = sandbox.boot_again().await.with_context(|| format!("round {round}"))?;
        keeps(sandbox.client(), &told).await.with_context(|| format!("round {round}"))?;
    }
    sandbox.stop().await
}

/// Runs short execs until the connection breaks.
async fn call(client: Client, prefix: String) -> Replies {
    let mut told = Replies::default();
    for number in 0.. {
        let id = format!("{prefix}-{number}");
        let request = json!({"id": id, "shell": format!("echo {id}; exit {}", number % 256)});
        let Ok(answer) = client.post("/v1/execs", &request).await else { break };
        let Ok(_) = answer.json::<ExecView>() else { break };
        told.accepted.push(id.clone());
        let Ok(view) = client.ended(&id).await else { break };
        told.ended.extend(view.exit.map(|exit| (id, exit)));
    }
    told
}

async fn keeps(client: &Client, told: &Replies) -> Result<()> {
    let events = events_so_far(client).await?;
    for id in &told.accepted {
        let view = view(client, id).await.with_context(|| format!("{id} was accepted and is gone"))?;
        let exit = view.exit.clone().with_context(|| format!("{view:?}"))?;
        if let Some(before) = told.ended.get(id) {
            ensure!(exit == *before && stdout(&view)? == format!("{id}\n"), "{before:?} became {view:?}");
        }
        ensure!(
            ends(&events, id) == [&exit],
            "{id}: {:?} in events, {exit:?} in the record",
            ends(&events, id)
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_stream_that_broke_goes_on_after_the_boot_without_gap_or_duplicate() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    let mut seen: Vec<Event> = Vec::new();
    for _ in 0..scaled(5, 100) {
        let cursor = seen.last().map(|event| event.cursor).unwrap_or_default();
        let client = sandbox.client().clone();
        let reading = tokio::spawn(async move {
            let request = Request::get("/v1/events").header("last-event-id", cursor.to_string());
            let request = request.body(http_body_util::Empty::new())?;
            let mut stream = EventStream::open_with(&client, request, cursor).await?;
            let mut events = Vec::new();
            // Ends with an error: the connection breaks.
            while let Ok(Some(event)) = stream.next().await {
                events.push(event);
            }
            anyhow::Ok(events)
        });
        for _ in 0..5 {
            shell(sandbox.client(), "true").await?;
        }
        sandbox = sandbox.crash_and_boot().await?;
        seen.extend(reading.await??);
    }
    let cursor = seen.last().map(|event| event.cursor).unwrap_or_default();
    seen.extend(events_after(sandbox.client(), cursor).await?);
    ensure!(seen == events_so_far(sandbox.client()).await?, "what was seen differs from what is kept");
    sandbox.stop().await
}
