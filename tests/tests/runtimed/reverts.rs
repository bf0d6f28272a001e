//! Reverts as PID 1 sees them: their process is killed, a task comes meanwhile, the sandbox is stopped.

use anyhow::{Context, Result, ensure};
use protocol::{Checkpoint, Fact, TaskStatus};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tests::Sandbox;
use tests::events::events_so_far;
use tests::sandbox::PATIENCE;
use tests::shell::shell;
use tests::tasks::{ended, run, submit, task};
use tokio::time::timeout;

/// A git that waits at the place that a revert reaches after it began to change files, as long as `hold` is there.
const SLOW_GIT: &str = r#"#!/bin/sh
case "$1" in
    cat-file) if [ -e ~/.slipway/restored ] && [ -e ~/hold ]; then touch ~/waits; while [ -e ~/hold ]; do sleep 0.02; done; fi ;;
esac
exec /usr/bin/git "$@"
"#;

struct Held {
    sandbox: Sandbox,
    since: String,
    _programs: tempfile::TempDir,
}

/// A sandbox with one task that changed a file and added another; its git can be held.
async fn held() -> Result<Held> {
    let programs = tests::launch::directory()?;
    std::fs::set_permissions(programs.path(), std::fs::Permissions::from_mode(0o755))?;
    let git = programs.path().join("git");
    let real = ["/usr/bin/git", "/usr/local/bin/git"].into_iter().find(|path| Path::new(path).exists());
    let script = SLOW_GIT.replace("/usr/bin/git", real.context("git")?);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.path().display());
    let variable = format!("RUNTIMED_IMAGE_ENV={}", json!({"PATH": path}));
    let sandbox = Sandbox::start_with(&[&variable]).await?;
    // Git is run with another home.
    std::fs::write(&git, script.replace('~', &sandbox.home().display().to_string()))?;
    std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755))?;
    shell(sandbox.client(), "echo 1 > a").await?;
    let result = run(sandbox.client(), task("first", "echo 2 > a; echo n > added")).await?;
    let Checkpoint::Taken { id: since, .. } = result.checkpoint else { anyhow::bail!("{result:?}") };
    Ok(Held { sandbox, since, _programs: programs })
}

impl Held {
    async fn revert(&self) -> Result<tests::ClientReply> {
        let body = json!({"since": self.since, "dry_run": false});
        self.sandbox.client().post("/v1/tasks/first/revert", &body).await
    }

    fn hold(&self) -> Result<()> {
        Ok(std::fs::write(self.sandbox.home().join("hold"), "")?)
    }

    fn release(&self) -> Result<()> {
        Ok(std::fs::remove_file(self.sandbox.home().join("hold"))?)
    }

    /// Waits until the revert is at the held place.
    async fn waits(&self) -> Result<()> {
        let waits = self.sandbox.home().join("waits");
        let there = async {
            while !waits.exists() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, there).await.context("the revert does not begin")
    }

    async fn events(&self) -> Result<Vec<Fact>> {
        let events = events_so_far(self.sandbox.client()).await?;
        let facts = events.into_iter().map(|event| event.fact);
        Ok(facts.filter(|fact| matches!(fact, Fact::TaskReverted { .. })).collect())
    }
}

#[tokio::test]
async fn a_task_starts_after_the_revert_and_another_revert_is_refused() -> Result<()> {
    let held = held().await?;
    held.hold()?;
    let client = held.sandbox.client();
    let (first, ()) = tokio::try_join!(held.revert(), async {
        held.waits().await?;
        let second = held.revert().await?;
        ensure!(second.status == 429, "{}", second.text());
        submit(client, task("next", "cat a; ls added")).await?;
        let view = tests::tasks::view(client, "next").await?;
        ensure!(view.started_ms.is_none(), "it started beside the revert: {view:?}");
        held.release()
    })?;
    ensure!(first.status == 200 && first.text().contains("\"reverted\""), "{}", first.text());
    let result = ended(client, "next").await?;
    ensure!(result.status == TaskStatus::Failed, "the added file is gone: {result:?}");
    let events = held.events().await?;
    let [Fact::TaskReverted { restored: 1, deleted: 1, complete: true, saved: Some(saved), .. }] =
        &events[..]
    else {
        anyhow::bail!("{events:?}")
    };
    let show = format!("git --git-dir ~/.slipway/checkpoints.git show {saved}:added");
    ensure!(shell(client, &show).await? == "n\n");
    let archive = format!("git --git-dir ~/.slipway/checkpoints.git archive {saved} | tar -x -C . && cat a");
    ensure!(shell(client, &archive).await? == "2\n");
    held.sandbox.stop().await
}

#[tokio::test]
async fn a_killed_revert_says_so_and_is_repeated() -> Result<()> {
    let held = held().await?;
    held.hold()?;
    let client = held.sandbox.client();
    let (killed, ()) = tokio::try_join!(held.revert(), async {
        held.waits().await?;
        shell(client, "pkill -KILL -f 'checkpoint .*revert'").await.map(drop)
    })?;
    ensure!(killed.status == 500 && killed.text().contains("killed by signal 9"), "{}", killed.text());
    let events = held.events().await?;
    ensure!(matches!(events[..], [Fact::TaskReverted { complete: false, .. }]), "{events:?}");
    held.release()?;
    let again = held.revert().await?;
    ensure!(again.status == 200 && again.text().contains("\"reverted\""), "{}", again.text());
    ensure!(shell(client, "cat a; ls; ls ~/.slipway").await? == "1\na\ncheckpoints.git\n");
    held.sandbox.stop().await
}

#[tokio::test]
async fn a_stop_ends_a_revert() -> Result<()> {
    let mut held = held().await?;
    held.hold()?;
    let (ended, stopped) = tokio::join!(held.revert(), async {
        held.waits().await?;
        held.sandbox.signal(nix::sys::signal::Signal::SIGTERM)
    });
    stopped?;
    // The answer may be lost with its sandbox, but not be a success.
    ensure!(
        ended.as_ref().map_or(true, |reply| reply.status == 500),
        "{:?}",
        ended.map(|reply| reply.text())
    );
    ensure!(held.sandbox.wait().await?.success(), "{}", held.sandbox.stderr());
    Ok(())
}
