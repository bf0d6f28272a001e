//! Debian's `docker-registry` on loopback, at a port of its own. Images are pushed with curl, as any client does.

use super::ImageLayout;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

const LISTENS: &str = "listening on ";
pub const USER: &str = "ann";
pub const PASSWORD: &str = "hunter2";
/// `htpasswd -B` of both.
const HTPASSWD: &str = "ann:$2b$04$b11uALVeUecWXwk51BRP1eM6UL.4Vu8a/p2Rxcrtru1NB22Hf.5ki\n";

/// Who may pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Public,
    /// Only who has the login.
    Private,
}

pub struct LocalRegistry {
    dir: tempfile::TempDir,
    /// `host:port`.
    authority: String,
    access: Access,
    child: Child,
    /// Its log, which must stay open.
    _log: BufReader<ChildStderr>,
}

impl LocalRegistry {
    pub fn start(access: Access) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let (child, log, authority) = serve(dir.path(), access, "127.0.0.1:0")?;
        Ok(Self { dir, authority, access, child, _log: log })
    }

    /// Serves a directory that another registry filled.
    pub fn of_storage(storage: &Path) -> Result<Self> {
        let mut registry = Self::start(Access::Public)?;
        registry.stop()?;
        let copied = Command::new("cp").arg("-a").arg(storage.join(".")).arg(registry.dir.path()).status()?;
        ensure!(copied.success(), "cp failed");
        registry.resume()?;
        Ok(registry)
    }

    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the reference of an image in this registry.
    pub fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.authority)
    }

    /// The directory with everything that was pushed.
    pub fn storage(&self) -> &Path {
        self.dir.path()
    }

    /// The file of a blob.
    pub fn blob_file(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        self.dir.path().join(format!("docker/registry/v2/blobs/sha256/{}/{hex}/data", &hex[..2]))
    }

    /// Ends the program: nothing answers at its address.
    pub fn stop(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts the program again, at the same address.
    pub fn resume(&mut self) -> Result<()> {
        let (child, log, _) = serve(self.dir.path(), self.access, &self.authority)?;
        (self.child, self._log) = (child, log);
        Ok(())
    }

    /// Pushes an image as `REPOSITORY:TAG`. Returns its reference.
    pub fn push(&self, layout: &ImageLayout, name: &str) -> Result<String> {
        let (repository, tag) = name.split_once(':').context("a tag")?;
        let index: Value = serde_json::from_slice(&fs::read(layout.path().join("index.json"))?)?;
        let manifest = &index["manifests"][0];
        let digest = manifest["digest"].as_str().context("a digest")?;
        let document = layout.blob(digest);
        let described: Value = serde_json::from_slice(&fs::read(&document)?)?;
        let layers = described["layers"].as_array().context("layers")?;
        for blob in layers.iter().chain([&described["config"]]) {
            self.push_blob(layout, repository, blob["digest"].as_str().context("a digest")?)?;
        }
        let media_type = manifest["mediaType"].as_str().context("a type")?;
        let url = format!("http://{}/v2/{repository}/manifests/{tag}", self.authority);
        let data = format!("@{}", document.display());
        self.curl(&[
            "-X",
            "PUT",
            "-H",
            &format!("Content-Type: {media_type}"),
            "--data-binary",
            &data,
            &url,
        ])?;
        Ok(self.reference(name))
    }

    fn push_blob(&self, layout: &ImageLayout, repository: &str, digest: &str) -> Result<()> {
        let uploads = format!("http://{}/v2/{repository}/blobs/uploads/", self.authority);
        let head = self.curl(&["-D", "-", "-o", "/dev/null", "-X", "POST", "-d", "", &uploads])?;
        let location = head.lines().find_map(|line| line.strip_prefix("Location: ")).context("a location")?;
        let to = format!("{}&digest={digest}", location.trim());
        let data = format!("@{}", layout.blob(digest).display());
        let kind = "Content-Type: application/octet-stream";
        self.curl(&["-X", "PUT", "-H", kind, "--data-binary", &data, &to]).map(drop)
    }

    fn curl(&self, arguments: &[&str]) -> Result<String> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail"]);
        if self.access == Access::Private {
            curl.args(["--user", &format!("{USER}:{PASSWORD}")]);
        }
        let output = curl.args(arguments).output()?;
        ensure!(output.status.success(), "curl: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for LocalRegistry {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

fn serve(dir: &Path, access: Access, address: &str) -> Result<(Child, BufReader<ChildStderr>, String)> {
    let (root, passwords) = (dir.display(), dir.join("htpasswd"));
    fs::write(&passwords, HTPASSWD)?;
    let auth = match access {
        Access::Public => String::new(),
        Access::Private => format!("auth: {{htpasswd: {{realm: test, path: {}}}}}\n", passwords.display()),
    };
    let config = dir.join("config.yml");
    fs::write(
        &config,
        format!(
            "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {root}}}}}\nhttp: {{addr: '{address}'}}\n{auth}"
        ),
    )?;
    let mut command = Command::new("docker-registry");
    command.arg("serve").arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("start docker-registry (scripts/setup installs it)")?;
    let mut log = BufReader::new(child.stderr.take().context("piped")?);
    let mut line = String::new();
    while !line.contains(LISTENS) {
        line.clear();
        ensure!(log.read_line(&mut line)? > 0, "the registry ended");
    }
    let (_, after) = line.split_once(LISTENS).context("found above")?;
    let authority = after.split(['"', ',', ' ']).next().context("an address")?.trim().to_owned();
    Ok((child, log, authority))
}
