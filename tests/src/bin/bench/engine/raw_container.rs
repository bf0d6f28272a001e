//! The engine by itself: the very container that hostd asks for, made and started with nothing around it.
//!
//! Files and directories are there before the clock starts, and nothing is written down: all of that hostd
//! does within its own time.

use super::Overheard;
use super::relay::Creation;
use crate::host::spec;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tests::engines::Engine;
use tests::sandbox::PATIENCE;
use tests::{Client, ClientReply};

/// Between two tries to reach PID 1, as hostd has it.
const PAUSE: Duration = Duration::from_micros(500);
const SANDBOX_UID: u32 = 1000;

pub struct Raw {
    engine: Client,
    /// Where its files are, instead of hostd's.
    dir: TempDir,
    creation: Creation,
    /// The sandbox whose container it is like.
    like: String,
    made: u32,
}

pub struct Container {
    id: String,
    control: PathBuf,
}

impl Raw {
    /// From what a hostd asks for, which is gone afterwards.
    pub async fn of(engine: &Engine) -> Result<Self> {
        let overheard = Overheard::start(engine).await?;
        let caller = overheard.hostd.local();
        let like = caller.create(&spec()).await?;
        let mut creation = overheard.relay.made_last()?;
        let dir = tempfile::Builder::new().prefix("bench-raw-").tempdir_in("/var/tmp")?;
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o711))?;
        let data = overheard.hostd.data();
        let body = String::from_utf8(creation.body.to_vec())?;
        creation.body = body.replace(path(data)?, path(dir.path())?).into();
        // Named in the body where an engine reads it itself.
        for file in std::fs::read_dir(data)? {
            let name = file?.file_name();
            if name.to_string_lossy().starts_with("seccomp-") {
                std::fs::copy(data.join(&name), dir.path().join(&name))?;
            }
        }
        caller.delete(&format!("/v1/sandboxes/{like}")).await?.expect::<Value>(200)?;
        overheard.hostd.stop().await?;
        Ok(Self { engine: Client::new(engine.socket()), dir, creation, like, made: 0 })
    }

    /// From the first question until PID 1 answers.
    pub async fn create(&mut self) -> Result<(Container, Duration)> {
        self.made += 1;
        let name = format!("{:026}", self.made);
        let control = self.prepare(&name)?;
        let body = String::from_utf8(self.creation.body.to_vec())?.replace(&self.like, &name);
        let path = self.creation.path.replace(&self.like, &name);
        let started = Instant::now();
        let created = self.ask(Method::POST, &path, body.into()).await?;
        let id = created.json::<Value>()?["Id"].as_str().context("an id")?.to_owned();
        let container = Container { id, control };
        self.raise(&container).await?;
        Ok((container, started.elapsed()))
    }

    /// Ends it in order; it stays.
    pub async fn stop(&self, container: &Container) -> Result<()> {
        self.tell(Method::POST, &container.id, "/stop?t=10").await
    }

    pub async fn wake(&self, container: &Container) -> Result<Duration> {
        let started = Instant::now();
        self.raise(container).await?;
        Ok(started.elapsed())
    }

    pub async fn remove(&self, container: Container) -> Result<()> {
        self.tell(Method::DELETE, &container.id, "?force=true&v=true").await
    }

    async fn raise(&self, container: &Container) -> Result<()> {
        self.tell(Method::POST, &container.id, "/start").await?;
        let (pid_1, started) = (Client::new(container.control.join("sock")), Instant::now());
        while !pid_1.get("/healthz").await.is_ok_and(|answer| answer.status == 200) {
            ensure!(started.elapsed() < PATIENCE, "PID 1 does not answer");
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    async fn tell(&self, method: Method, id: &str, verb: &str) -> Result<()> {
        let (version, _) = self.creation.path.split_once("/containers/").context("a version")?;
        self.ask(method, &format!("{version}/containers/{id}{verb}"), Bytes::new()).await.map(drop)
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<ClientReply> {
        let what = format!("{method} {path}");
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
        let response = self.engine.open(request.body(Full::new(body))?).await?;
        let status = response.status().as_u16();
        let answer = ClientReply { status, body: response.into_body().collect().await?.to_bytes() };
        ensure!(status < 300, "{what}: {status} {}", answer.text());
        Ok(answer)
    }

    /// The directories that its body names; that of its control socket.
    fn prepare(&self, name: &str) -> Result<PathBuf> {
        let in_dir = |part: &str| self.dir.path().join(part).join(name);
        let (own, home) = (in_dir("docker"), in_dir("docker-workspaces"));
        for (path, uid) in [
            (own.join("control"), 0),
            (own.join("public"), 0),
            (home.clone(), SANDBOX_UID),
            (home.join("workspace"), SANDBOX_UID),
            (home.join("workspace/app"), SANDBOX_UID),
        ] {
            std::fs::create_dir_all(&path)?;
            chown(&path, Some(uid), Some(uid))?;
        }
        Ok(own.join("control"))
    }
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a path that can be read")
}
