//! kill -9 of hostd at every step of a snapshot, a restore and a removal. Afterwards the sandbox runs with its files, what is
//! listed is whole, and no space is lost.

use anyhow::{Context, Result, ensure};
use hostd_store::failpoint::{OF_REMOVALS, OF_RESTORES, OF_SNAPSHOTS, VARIABLE};
use serde_json::{Value, json};
use std::path::Path;
use tests::{Caller, Hostd, host::until};

const FILL: &str = "mkdir -p dir; for n in $(seq 50); do echo $n > dir/$n; done";
const LOOK: &str = "cd; find workspace -type f | sort | xargs sha256sum";

struct Fixture {
    hostd: Hostd,
    token: String,
    id: String,
}

impl Fixture {
    async fn new() -> Result<Self> {
        let hostd = Hostd::start().await?;
        let ann = hostd.caller("a", "ann", "run").await?;
        let token = ann.token().context("a token")?.to_owned();
        let id = ann.create(&json!({})).await?;
        ann.prints(&id, FILL).await?;
        Ok(Self { hostd, token, id })
    }

    fn ann(&self) -> Caller {
        Caller::tcp(self.hostd.url(), Some(&self.token))
    }

    async fn take(&self) -> Result<String> {
        let taken = self.ann().post(&format!("/v1/sandboxes/{}/snapshots", self.id), &json!({})).await?;
        Ok(taken.expect::<Value>(201)?["id"].as_str().context("an id")?.to_owned())
    }

    async fn look(&self) -> Result<String> {
        self.ann().prints(&self.id, LOOK).await
    }

    /// Asks a hostd that dies at a point, and starts another one.
    async fn dies_at(&mut self, point: &str, verb: &str, path: &str) -> Result<()> {
        self.hostd.again_with(&[(VARIABLE, point)]).await?;
        let ann = self.ann();
        let asked = match verb {
            "DELETE" => ann.delete(path).await,
            _ => ann.post(path, &json!({})).await,
        };
        if asked.is_ok() {
            // Points after the response.
            self.hostd.ended().await.with_context(|| format!("{point} is never reached"))?;
        }
        self.hostd.crash().await
    }

    /// All snapshots that are listed, each of them read again.
    async fn whole(&self) -> Result<Vec<String>> {
        let ann = self.ann();
        let listed: Value = ann.get("/v1/snapshots").await?.expect(200)?;
        let mut ids = vec![];
        for view in listed["items"].as_array().context("items")? {
            let id = view["id"].as_str().context("an id")?.to_owned();
            ann.until(&format!("/v1/snapshots/{id}"), |view| !view["content"].is_null()).await?;
            let verified = ann.post(&format!("/v1/snapshots/{id}/verify"), &json!({})).await?;
            ensure!(verified.expect::<Value>(200)?["intact"] == true, "{id}");
            ids.push(id);
        }
        Ok(ids)
    }

    async fn leaves_nothing(&self) -> Result<()> {
        for snapshot in self.whole().await? {
            ensure!(self.ann().delete(&format!("/v1/snapshots/{snapshot}")).await?.status == 204);
        }
        self.ann().delete(&format!("/v1/sandboxes/{}?wait=30s", self.id)).await?;
        let left = async || {
            let count = |dir: &str| count(&self.hostd.data().join(dir));
            let dirs = ["snapshots", "stacks", "replaced", "trash"];
            let files = dirs.into_iter().map(count).sum::<Result<usize>>()?;
            // The mount point.
            Ok((files + count("workspace-layers")? == 1).then_some(()))
        };
        until("all space comes back", left).await
    }
}

fn count(dir: &Path) -> Result<usize> {
    Ok(std::fs::read_dir(dir)?.count())
}

#[tokio::test]
async fn cut_off_in_a_snapshot_there_is_a_whole_one_or_none_and_the_sandbox_goes_on() -> Result<()> {
    let mut place = Fixture::new().await?;
    let before = place.look().await?;
    let path = format!("/v1/sandboxes/{}/snapshots", place.id);
    for point in OF_SNAPSHOTS {
        let count = place.whole().await?.len();
        place.dies_at(point, "POST", &path).await.with_context(|| (*point).to_owned())?;
        // Also one that was frozen.
        ensure!(place.look().await? == before, "{point}");
        let now = place.whole().await?.len();
        let exists = OF_SNAPSHOTS.iter().position(|other| other == point)
            >= OF_SNAPSHOTS.iter().position(|other| *other == "snapshot.published");
        ensure!(now == count + usize::from(exists), "{point}: {count}, {now}");
    }
    place.leaves_nothing().await
}

#[tokio::test]
async fn cut_off_in_a_restore_the_files_are_the_old_or_the_new_ones() -> Result<()> {
    let mut place = Fixture::new().await?;
    let restored = place.look().await?;
    let snapshot = place.take().await?;
    for point in OF_RESTORES {
        place
            .ann()
            .prints(&place.id, &format!("echo {point} > dir/1; rm -f dir/2; echo new > dir/new"))
            .await?;
        let changed = place.look().await?;
        let path = format!("/v1/snapshots/{snapshot}/restore");
        place.dies_at(point, "POST", &path).await.with_context(|| (*point).to_owned())?;
        let now = place.look().await?;
        ensure!(now == restored || now == changed, "{point}: {now}");
        let keeps_new = ["restore.launched", "restore.committed", "store.sandbox_restored.before_commit"];
        ensure!((now == restored) == keeps_new.contains(point), "{point}: {now}");
        let replaced = place.hostd.data().join("replaced");
        until("no backup is left", async || Ok((count(&replaced)? == 0).then_some(()))).await?;
        ensure!(place.whole().await? == [snapshot.clone()], "{point}");
    }
    place.leaves_nothing().await
}

#[tokio::test]
async fn cut_off_in_a_removal_the_snapshot_is_whole_or_gone_with_its_space() -> Result<()> {
    let mut place = Fixture::new().await?;
    for point in OF_REMOVALS {
        let snapshot = place.take().await?;
        place.whole().await?;
        let path = format!("/v1/snapshots/{snapshot}");
        place.dies_at(point, "DELETE", &path).await.with_context(|| (*point).to_owned())?;
        let left = place.whole().await?;
        ensure!(left.is_empty() != (*point == "store.hide_snapshot.before_commit"), "{point}: {left:?}");
        for snapshot in left {
            ensure!(place.ann().delete(&format!("/v1/snapshots/{snapshot}")).await?.status == 204);
        }
        let layers = place.hostd.data().join("workspace-layers");
        until("the space comes back", async || Ok((count(&layers)? == 1).then_some(()))).await?;
    }
    place.leaves_nothing().await
}
