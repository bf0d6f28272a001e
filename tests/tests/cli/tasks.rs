//! `slipway run` and `slipway task` against a real hostd: what they print, how they exit, what they leave, and
//! that a follower lives through kills of hostd.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tests::Hostd;
use tests::host::Ran;
use tests::sandbox::PATIENCE;
use tokio::io::{AsyncBufReadExt, BufReader};

use tokio::time::timeout;

/// The sandboxes that there are.
async fn sandboxes(hostd: &Hostd) -> Result<String> {
    Ok(hostd.ran(&["ls", "-q"]).await?.out)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_shows_the_task_and_leaves_nothing() -> Result<()> {
    let hostd = Hostd::start().await?;
    let line = "echo \"told: $SLIPWAY_PROMPT\"; echo oops >&2; printf 'a\\nb\\n' > new.txt";
    let ran = hostd.ran(&["run", "be kind", "--build", "grep -q a new.txt", "--", "sh", "-c", line]).await?;
    ensure!(ran.code == Some(0), "{ran:?}");
    for expected in
        ["· agent", "\ntold: be kind\n", "\noops\n", "succeeded after", "A new.txt +2", "build       passed"]
    {
        ensure!(ran.out.contains(expected), "{expected:?} is not in {ran:?}");
    }
    ensure!(ran.err.is_empty(), "{ran:?}");
    ensure!(sandboxes(&hostd).await?.is_empty());
    let failed = hostd.ran(&["run", "p", "--", "sh", "-c", "exit 9"]).await?;
    ensure!(failed.code == Some(9) && failed.out.contains("the agent exited 9"), "{failed:?}");
    let slow = hostd.ran(&["run", "p", "--timeout", "500ms", "--", "sleep", "600"]).await?;
    ensure!(slow.code == Some(124), "{slow:?}");
    let nowhere = hostd.ran(&["run", "p", "--", "no-such-program"]).await?;
    ensure!(nowhere.code == Some(127), "{nowhere:?}");
    let refused = hostd.ran(&["run", "p", "--agent", "unknown"]).await?;
    ensure!(refused.code == Some(125), "{refused:?}");
    ensure!(sandboxes(&hostd).await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_the_task_and_the_sandbox() -> Result<()> {
    let hostd = Hostd::start().await?;
    let mut child = hostd.slipway(&["run", "p", "--", "sh", "-c", "echo begun; sleep 600"])?.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
    loop {
        let line = timeout(PATIENCE, lines.next_line()).await.context("prints nothing")??;
        if line.context("its output ended")? == "begun" {
            break;
        }
    }
    let pid = i32::try_from(child.id().context("it runs")?)?;
    kill(Pid::from_raw(pid), Signal::SIGINT)?;
    let mut rest = String::new();
    while let Some(line) = timeout(PATIENCE, lines.next_line()).await.context("does not end")?? {
        rest.push_str(&line);
    }
    let ran = Ran::of(child).await?;
    ensure!(ran.code == Some(130) && rest.contains("cancelled after"), "{rest} {ran:?}");
    ensure!(sandboxes(&hostd).await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_sees_every_event_once_through_kills_of_hostd() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let sandbox = hostd.ran(&["create"]).await?.out.trim().to_owned();
    let line = "i=0; while [ $i -lt 60 ]; do echo $i; i=$((i+1)); sleep 0.1; done";
    let submit = ["task", "submit", "--id", "long", &sandbox, "p", "--", "sh", "-c", line];
    ensure!(hostd.ran(&submit).await?.out == "long\n");
    let mut follower = hostd.slipway(&["--json", "task", "follow", &sandbox, "long"])?.spawn()?;
    let mut lines = BufReader::new(follower.stdout.take().context("its output")?).lines();
    let mut followed = Vec::new();
    while let Some(line) = timeout(PATIENCE, lines.next_line()).await.context("does not go on")?? {
        followed.push(line);
        if [10, 30, 50].contains(&followed.len()) {
            hostd.crash().await?;
        }
    }
    let ran = Ran::of(follower).await?;
    ensure!(ran.code == Some(0), "{ran:?}");
    let events: Vec<Value> =
        followed.iter().map(|line| serde_json::from_str(line)).collect::<Result<_, _>>()?;
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["number"].as_u64()).collect();
    ensure!(numbers == (1..=events.len() as u64).collect::<Vec<_>>(), "{numbers:?}");
    let said: Vec<String> =
        events.iter().filter_map(|event| event["text"].as_str().map(str::to_owned)).collect();
    ensure!(said == (0..60).map(|n| n.to_string()).collect::<Vec<_>>(), "{said:?}");
    // A later follower sees the same, from any position.
    let again = hostd.ran(&["--json", "task", "follow", &sandbox, "long"]).await?;
    ensure!(again.out.lines().collect::<Vec<_>>() == followed, "{again:?}");
    let last = events.last().and_then(|event| event["seq"].as_u64()).context("done")?.to_string();
    let nothing = hostd.ran(&["--json", "task", "follow", &sandbox, "long", "--since", &last]).await?;
    ensure!(nothing.out.is_empty() && nothing.code == Some(0), "{nothing:?}");
    let got = hostd.ran(&["task", "get", &sandbox, "long"]).await?;
    ensure!(got.out.contains("status      succeeded"), "{got:?}");
    ensure!(hostd.ran(&["task", "ls", &sandbox]).await?.out.contains("long  succeeded"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diff_is_printed_as_it_was_recorded() -> Result<()> {
    let hostd = Hostd::start().await?;
    let created = hostd.ran(&["create", "--name", "web"]).await?;
    ensure!(created.code == Some(0), "{created:?}");
    let line = "printf 'a\\nb\\n' > new.txt; printf '\\0' > bin";
    let job = ["task", "submit", "--id", "t1", "--follow", "web", "x", "--", "sh", "-c", line];
    ensure!(hostd.ran(&job).await?.code == Some(0));
    let diff = hostd.ran(&["task", "diff", "web", "t1"]).await?;
    for expected in
        ["diff --git a/bin b/bin\n", "GIT binary patch\n", "+++ b/new.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n"]
    {
        ensure!(diff.code == Some(0) && diff.out.contains(expected), "{expected:?} is not in {diff:?}");
    }
    let stat = hostd.ran(&["task", "diff", "--stat", "web", "t1"]).await?;
    ensure!(stat.out == "A bin (binary)\nA new.txt +2\n2 files changed +2\n", "{stat:?}");
    let one = hostd.ran(&["task", "diff", "web", "t1", "new.txt"]).await?;
    ensure!(one.out.starts_with("diff --git a/new.txt b/new.txt\n") && !one.out.contains("bin"), "{one:?}");
    let json = hostd.ran(&["--json", "task", "diff", "web", "t1"]).await?;
    let json: Value = serde_json::from_str(&json.out)?;
    ensure!(json["added"] == 2 && json["files"][1]["path"] == "new.txt", "{json}");
    let none = hostd.ran(&["task", "diff", "web", "t1", "none"]).await?;
    ensure!(none.code == Some(1) && none.out.is_empty(), "{none:?}");
    Ok(())
}
