//! Real apps with real dev servers in sandboxes: those of `tests/apps`, and what they need of others' in the
//! directory that `SLIPWAY_APPS` names.

mod visit;

pub use visit::{Headers, Pieces, Socket, Wire};

use crate::host::{Caller, Hostd};
use anyhow::{Context, Result, ensure};
use protocol::api::Visibility;
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

/// Next takes a third of a gigabyte.
const MEMORY_MB: u64 = 2048;

/// An app, its dev server as people start it, and the port that picks by itself.
#[derive(Debug, Clone, Copy)]
pub struct App {
    pub name: &'static str,
    pub command: &'static str,
    pub port: u16,
}

/// Listens on `[::1]` only.
pub const VITE: App = App { name: "vite", command: "exec npm run dev", port: 5173 };
/// Listens on all addresses.
pub const NEXT: App = App { name: "next", command: "exec npm run dev", port: 3000 };
/// Listens on `127.0.0.1` only, as the next one.
pub const DJANGO: App = App { name: "django", command: "exec sh serve.sh", port: 8000 };
pub const UVICORN: App = App { name: "uvicorn", command: "exec python3 -m uvicorn app:app", port: 8000 };
/// The files of the directory it is started in.
pub const FILES: App = App { name: "files", command: "exec python3 -m http.server", port: 8000 };

/// Answers with bytes of its own making.
pub const RAW: App = App { name: "raw", command: "exec python3 -u app.py", port: 8000 };

/// An app in a sandbox of its own.
#[derive(Clone)]
pub struct Running {
    pub app: App,
    pub sandbox: String,
    /// Where browsers see it, without a path.
    pub url: String,
    /// Its files on the host.
    pub dir: PathBuf,
    caller: Caller,
}

impl App {
    /// Puts it into a new sandbox and starts its server there.
    pub async fn launch(self, hostd: &Hostd) -> Result<Running> {
        let running = self.prepare(hostd).await?;
        running.serve(self.command).await?;
        Ok(running)
    }

    /// Puts it into a new sandbox.
    pub async fn prepare(self, hostd: &Hostd) -> Result<Running> {
        self.prepare_as(hostd, Visibility::Public).await
    }

    /// The same, seen by all or by invitation.
    pub async fn prepare_as(self, hostd: &Hostd, visibility: Visibility) -> Result<Running> {
        let caller = hostd.operator()?;
        let spec = json!({
            "ports": [self.port],
            "limits": {"memory_mb": MEMORY_MB},
            "env": {"NEXT_TELEMETRY_DISABLED": "1"},
            "visibility": visibility,
        });
        let sandbox = caller.create(&spec).await?;
        let running = self.in_sandbox(hostd, &sandbox).await?;
        self.fill(&running.dir)?;
        Ok(running)
    }

    /// As it runs in a sandbox that was made otherwise.
    pub async fn in_sandbox(self, hostd: &Hostd, sandbox: &str) -> Result<Running> {
        let caller = hostd.operator()?;
        let view = caller.sandbox(sandbox).await?;
        let url = view["previews"][self.port.to_string()].as_str().context("a preview")?.to_owned();
        let dir = hostd.workspace(sandbox).join("workspace/app");
        Ok(Running { app: self, sandbox: sandbox.to_owned(), url, dir, caller })
    }

    fn fill(self, dir: &Path) -> Result<()> {
        let owner = fs::metadata(dir)?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps").join(self.name);
        let copy = |from: &Path, to: &Path| fs::copy(from, to).map(|_| ());
        Tree { owner: &owner, place: &copy }
            .grow(&source, dir)
            .with_context(|| source.display().to_string())?;
        let needs = [("package.json", "node_modules"), ("requirements.txt", "site-packages")];
        for (_, modules) in needs.into_iter().filter(|(list, _)| source.join(list).exists()) {
            self.link(modules, dir, &owner)?;
        }
        Ok(())
    }

    /// Ten thousand files: a third of a second as links. They stay root's, so no sandbox can change them.
    fn link(self, modules: &str, dir: &Path, owner: &fs::Metadata) -> Result<()> {
        let apps = std::env::var_os("SLIPWAY_APPS");
        let apps = apps.context("SLIPWAY_APPS must name the directory that scripts/apps printed")?;
        let source = PathBuf::from(apps).join(self.name).join(modules);
        let place = |from: &Path, to: &Path| match fs::hard_link(from, to) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => fs::copy(from, to).map(|_| ()),
            linked => linked,
        };
        let target = dir.join(modules);
        fs::create_dir(&target)?;
        let tree = Tree { owner, place: &place };
        tree.give(&target)?;
        tree.grow(&source, &target).with_context(|| source.display().to_string())
    }
}

impl Running {
    /// Makes a command its one service, and waits until it is ready.
    pub async fn serve(&self, command: &str) -> Result<()> {
        self.want(command).await?;
        self.ready().await
    }

    /// Makes a command its one service.
    pub async fn want(&self, command: &str) -> Result<()> {
        let port = self.app.port;
        let service = json!({"name": "web", "command": command, "port": port, "health": {"tcp": port}});
        let path = format!("/v1/sandboxes/{}/services", self.sandbox);
        self.caller.put(&path, &json!({"services": [service]})).await?.expect::<Value>(200)?;
        Ok(())
    }

    /// Waits until the server listens.
    pub async fn ready(&self) -> Result<()> {
        self.until_services(|page| page["items"][0]["state"] == "ready").await.map(drop)
    }

    /// Waits until its services are as wanted.
    pub async fn until_services(&self, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let path = format!("/v1/sandboxes/{}/services", self.sandbox);
        let page = self.caller.until(&path, wanted).await;
        if page.is_err() {
            let log = self.caller.get(&format!("{path}/web/logs")).await?.text();
            return page.with_context(|| format!("{} said: {log}", self.app.name));
        }
        page
    }

    /// A verb of its sandbox or of something in it, which must be taken.
    pub async fn verb(&self, verb: &str) -> Result<Value> {
        self.caller.post(&format!("/v1/sandboxes/{}/{verb}", self.sandbox), &json!({})).await?.expect(200)
    }

    /// An address that opens the preview though it is private.
    pub async fn link(&self) -> Result<String> {
        let path = format!("/v1/sandboxes/{}/preview-links", self.sandbox);
        let link: Value = self.caller.post(&path, &json!({"port": self.app.port})).await?.expect(201)?;
        Ok(link["url"].as_str().context("an address")?.to_owned())
    }

    pub async fn destroy(self) -> Result<()> {
        self.caller.delete(&format!("/v1/sandboxes/{}", self.sandbox)).await?.expect::<Value>(200)?;
        Ok(())
    }

    pub async fn status(&self) -> Result<String> {
        let view = self.caller.sandbox(&self.sandbox).await?;
        Ok(view["status"].as_str().context("a status")?.to_owned())
    }

    /// How often its sandbox was brought up.
    pub async fn attempts(&self) -> Result<u64> {
        self.caller.sandbox(&self.sandbox).await?["attempt"].as_u64().context("an attempt")
    }

    /// Runs a shell line in the app directory and returns its output.
    pub async fn prints(&self, line: &str) -> Result<String> {
        self.caller.prints(&self.sandbox, line).await
    }

    /// Changes a text in one of its files, as an editor does inside.
    pub fn edit(&self, file: &str, from: &str, to: &str) -> Result<()> {
        let path = self.dir.join(file);
        let text = fs::read_to_string(&path)?;
        ensure!(text.contains(from), "{file} has no {from:?}");
        Ok(fs::write(&path, text.replace(from, to))?)
    }
}

/// A directory as it is to be in a sandbox.
struct Tree<'a> {
    /// The owner of directories and copied files.
    owner: &'a fs::Metadata,
    place: &'a dyn Fn(&Path, &Path) -> io::Result<()>,
}

impl Tree<'_> {
    fn grow(&self, from: &Path, to: &Path) -> Result<()> {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let (source, target, kind) = (entry.path(), to.join(entry.file_name()), entry.file_type()?);
            if kind.is_dir() {
                fs::create_dir(&target)?;
                self.grow(&source, &target)?;
            } else if kind.is_symlink() {
                std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
            } else {
                (self.place)(&source, &target)?;
            }
            self.give(&target)?;
        }
        Ok(())
    }

    /// Changes the owner of a path, but not of the target of a link.
    fn give(&self, target: &Path) -> Result<()> {
        let meta = fs::symlink_metadata(target)?;
        if meta.is_file() && meta.nlink() > 1 {
            return Ok(());
        }
        Ok(lchown(target, Some(self.owner.uid()), Some(self.owner.gid()))?)
    }
}
