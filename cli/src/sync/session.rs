//! One synchronisation: passes until both sides are the same, then again whenever one of them changes.

use super::{
    apply::{Applied, Sides},
    conflict_name::conflict_name,
    ignore_rules::IgnoreRules,
    local_tree::{self, LocalScan},
    local_watch::LocalWatch,
    plan::{Step, deletes_everything, plan},
    remote_tree::RemoteDirectory,
    remote_watch::{RemoteChange, RemoteWatch},
    report::{Act, Report},
    state::StateFile,
    tree::{Base, Name, Node, Tree},
};
use crate::{
    client::ClientError,
    failure::{Failure, eprint_line},
    files::{Beneath, FileApi, ListOptions, WorkspacePath},
    humanize, limits,
    output::Output,
};
use std::{collections::BTreeSet, fs, path::PathBuf, sync::Arc};
use tokio::time::{Instant, sleep};

/// Told where inotify cannot be used.
const NO_WATCHES: &str = "no inotify watches are left on this machine, so the directory is read every two seconds; raise \
                          fs.inotify.max_user_watches";

/// What is synchronised, and how.
pub struct SyncOptions {
    /// The canonical path of an existing directory.
    pub directory: PathBuf,
    pub path: WorkspacePath,
    pub exclude: Vec<String>,
    /// Follow `.gitignore` files, and leave out `.git`.
    pub ignore: bool,
    /// Deleting everything is meant.
    pub delete_everything: bool,
}

pub struct Session {
    local: Beneath,
    remote: RemoteDirectory,
    rules: IgnoreRules,
    state: StateFile,
    base: Base,
    remote_tree: Tree,
    delete_everything: bool,
    report: Report,
}

/// Whether a pass left something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Same,
    Again,
}

impl Session {
    pub async fn open(api: FileApi, options: SyncOptions, output: Output) -> Result<Self, Failure> {
        let SyncOptions { directory, path, exclude, ignore, delete_everything } = options;
        let rules = IgnoreRules::new(&exclude, ignore)?;
        let state = StateFile::new(api.sandbox, &path, &directory)
            .map_err(|error| Failure::io("find the cache directory", error))?;
        if !path.is_top() {
            api.mkdir(&path, None).await?;
        }
        let list = ListOptions { recursive: true, depth: None, ignore, exclude };
        let remote = RemoteDirectory { api, path, list };
        let base = state.load();
        let (local, report) = (Beneath::new(&directory), Report::new(output));
        Ok(Self { local, remote, rules, state, base, remote_tree: Tree::new(), delete_everything, report })
    }

    /// Makes both sides the same once; returns whether everything could be synchronised.
    pub async fn run_once(&mut self) -> Result<bool, Failure> {
        self.list_remote().await?;
        self.settle(None).await?;
        Ok(self.report.failed == 0)
    }

    /// Keeps both sides the same; returns only with a failure.
    pub async fn run(&mut self) -> Result<(), Failure> {
        let cannot = |error| Failure::io("watch the directory", error);
        let mut local = LocalWatch::new(self.local.root()).map_err(cannot)?;
        let mut remote = RemoteWatch::start(&self.remote, Arc::new(eprint_line));
        let (mut first, mut again) = (true, false);
        let mut pending = PendingChanges::default();
        loop {
            tokio::select! {
                // All are safe to cancel: events and changes are kept until they are read.
                () = local.changed(), if !first => {}
                change = remote.next() => pending.add(change?),
                // hostd was away: what changed meanwhile is found by a list.
                () = sleep(limits::SYNC_POLL), if again => pending.add(RemoteChange::Unknown),
            }
            // Changes come in groups.
            sleep(limits::SYNC_SETTLE).await;
            while let Some(change) = remote.try_next() {
                pending.add(change?);
            }
            again = !self.follow(&mut pending, &mut local).await.or_else(retry_later)?;
            if !again && std::mem::take(&mut first) {
                self.report.note("in sync; watching for changes until Ctrl-C");
                if local.is_polling() {
                    self.report.note(NO_WATCHES);
                }
            }
        }
    }

    /// Looks at what changed, and makes both sides the same; true when they are.
    async fn follow(
        &mut self,
        pending: &mut PendingChanges,
        local: &mut LocalWatch,
    ) -> Result<bool, Failure> {
        self.refresh_remote(pending).await?;
        self.settle(Some(local)).await?;
        Ok(true)
    }

    /// Passes until nothing is left to do. A tree that never rests is given a pause.
    async fn settle(&mut self, mut watch: Option<&mut LocalWatch>) -> Result<(), Failure> {
        for _ in 0..limits::SYNC_PASSES_MAX {
            let scan = self.scan_local()?;
            let uncovered = match &mut watch {
                Some(watch) => {
                    watch.cover(&scan.tree).map_err(|error| Failure::io("watch the directory", error))?
                }
                None => false,
            };
            if self.pass(&scan).await? == Pass::Same && !uncovered {
                break;
            }
        }
        Ok(())
    }

    fn scan_local(&mut self) -> Result<LocalScan, Failure> {
        let root = self.local.root();
        let scan = local_tree::scan(root, &self.rules)
            .map_err(|error| Failure::io(format!("read {}", root.display()), error))?;
        for name in &scan.outside {
            self.report.left_out(name, "it is a link out of the directory");
        }
        Ok(scan)
    }

    async fn list_remote(&mut self) -> Result<(), Failure> {
        let (tree, outside) = self.remote.read().await?;
        self.remote_tree = tree;
        for name in outside {
            self.report.left_out(&name, "it is a link out of the directory");
        }
        Ok(())
    }

    async fn refresh_remote(&mut self, pending: &mut PendingChanges) -> Result<(), Failure> {
        if pending.unknown || pending.paths.len() > limits::SYNC_STATS_MAX {
            if let Some(wait) = pending.listed.map(|at| limits::SYNC_LIST_EVERY.saturating_sub(at.elapsed()))
            {
                sleep(wait).await;
            }
            self.list_remote().await?;
            *pending = PendingChanges { listed: Some(Instant::now()), ..PendingChanges::default() };
            return Ok(());
        }
        for path in std::mem::take(&mut pending.paths) {
            let Some(name) = self.remote.path.strip_from(&path).map(<[u8]>::to_vec) else { continue };
            if name.is_empty() || self.rules.is_ignored(&name, false) {
                continue;
            }
            self.remote.refresh(&mut self.remote_tree, &name).await?;
        }
        Ok(())
    }

    async fn pass(&mut self, scan: &LocalScan) -> Result<Pass, Failure> {
        let is_directory =
            |name: &[u8]| [scan.tree.get(name), self.remote_tree.get(name)].contains(&Some(&Node::Directory));
        let outside: BTreeSet<&Name> = scan.outside.iter().collect();
        let is_ignored =
            |name: &[u8]| scan.rules.is_ignored(name, is_directory(name)) || outside.contains(&name.to_vec());
        let steps = plan(&self.base, &scan.tree, &self.remote_tree, is_ignored);
        if deletes_everything(&self.base, &steps) && !self.delete_everything {
            let message = "one side has lost every file that was synchronised; nothing was deleted";
            let next =
                "give --delete-all to delete them on the other side too, or remove the file's copies by hand";
            return Err(Failure::new(message).hint(next));
        }
        self.rules = scan.rules.clone();
        let mut pass = Pass::Same;
        let mut done = 0;
        for step in steps {
            if self.apply(&step, &scan.tree).await? == Pass::Again {
                pass = Pass::Again;
            }
            done += 1;
            if done % limits::SYNC_SAVE_EVERY == 0 {
                self.save()?;
            }
        }
        if done > 0 {
            self.save()?;
        }
        Ok(pass)
    }

    fn save(&self) -> Result<(), Failure> {
        self.state
            .save(&self.base)
            .map_err(|error| Failure::io("write the state of the synchronisation", error))
    }

    /// Does a step, and records what it led to.
    async fn apply(&mut self, step: &Step, local_tree: &Tree) -> Result<Pass, Failure> {
        let sides =
            Sides { local: &self.local, remote: &self.remote, local_tree, remote_tree: &self.remote_tree };
        let (name, act, applied) = match step {
            Step::Upload(name) => (name, Some(Act::Upload), sides.upload(name).await?),
            Step::Download(name) => (name, Some(Act::Download), sides.download(name).await?),
            Step::DeleteRemote(name) => (name, Some(Act::DeleteRemote), sides.delete_remote(name).await?),
            Step::DeleteLocal(name) => (name, Some(Act::DeleteLocal), sides.delete_local(name).await?),
            Step::Compare(name) => match sides.compare(name).await? {
                Some(applied) => (name, None, applied),
                None => return self.conflict(name),
            },
            Step::Conflict(name) => return self.conflict(name),
            Step::Adopt(name) => (name, None, adopted(name, local_tree, &self.remote_tree)),
            Step::Forget(name) => {
                self.base.remove(name);
                return Ok(Pass::Same);
            }
        };
        match applied {
            Applied::Synced(synced) => {
                self.remote_tree.insert(name.clone(), synced.remote.clone());
                self.base.insert(name.clone(), synced);
            }
            Applied::Removed => {
                self.remote_tree.remove(name);
                self.base.remove(name);
            }
            Applied::Changed => {
                self.remote.refresh(&mut self.remote_tree, name).await?;
                return Ok(Pass::Again);
            }
            Applied::LeftOut(why) => {
                self.report.failed += 1;
                self.report.left_out(name, &why);
                return Ok(Pass::Same);
            }
        }
        act.map_or(Ok(()), |act| self.report.act(act, name, None))?;
        Ok(Pass::Same)
    }

    /// The remote file keeps the name: the local one gets another, under which the next pass uploads it.
    fn conflict(&mut self, name: &Name) -> Result<Pass, Failure> {
        let Ok(path) = self.local.find(name) else { return Ok(Pass::Again) };
        let is_taken = |name: &[u8]| self.local.find(name).is_ok_and(|path| path.symlink_metadata().is_ok());
        let kept = conflict_name(name, humanize::now_ms() / 1000, is_taken);
        let Ok(target) = self.local.find(&kept) else { return Ok(Pass::Again) };
        match fs::rename(&path, &target) {
            Ok(()) => {
                self.base.remove(name);
                self.report.act(Act::Conflict, name, Some(&kept))?;
            }
            // Gone meanwhile, which is no conflict any more.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::io(format!("rename {}", path.display()), error)),
        }
        Ok(Pass::Again)
    }
}

fn adopted(name: &Name, local: &Tree, remote: &Tree) -> Applied {
    match (local.get(name), remote.get(name)) {
        (Some(local), Some(remote)) => {
            Applied::Synced(super::tree::Synced { local: local.clone(), remote: remote.clone() })
        }
        (Some(_) | None, Some(_) | None) => Applied::Changed,
    }
}

/// Changes of the sandbox that were told and not looked at yet.
#[derive(Debug, Default)]
struct PendingChanges {
    unknown: bool,
    paths: BTreeSet<WorkspacePath>,
    /// When the tree was listed last.
    listed: Option<Instant>,
}

impl PendingChanges {
    fn add(&mut self, change: RemoteChange) {
        match change {
            RemoteChange::Unknown => self.unknown = true,
            RemoteChange::Paths(paths) => self.paths.extend(paths),
        }
    }
}

/// A hostd that restarts is waited for; anything else is a failure.
fn retry_later(failure: Failure) -> Result<bool, Failure> {
    let restarts = matches!(&failure, Failure::Client(error) if error.is_transient() && !is_full(error));
    if restarts { Ok(false) } else { Err(failure) }
}

/// Whether the workspace or the host is full, which does not pass by itself.
fn is_full(error: &ClientError) -> bool {
    error.is(protocol::api::ApiErrorCode::DiskFull)
}
