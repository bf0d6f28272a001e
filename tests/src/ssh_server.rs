//! A repository on a real SSH server: sshd of Debian, one process for each connection that a listener of the test
//! accepts, as root.

use crate::git_repository::BareRepository;
use anyhow::{Context, Result, ensure};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

const SSHD: &str = "/usr/sbin/sshd";
/// Where sshd confines the part that speaks to strangers. Its package makes it when its service starts.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";

pub struct SshServer {
    dir: tempfile::TempDir,
    repository: BareRepository,
    authority: String,
    connections: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl SshServer {
    /// Starts a server with one repository and one key that may use it.
    pub async fn start() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let repository = BareRepository::create(dir.path().join("team/app.git"))?;
        std::fs::create_dir_all(PRIVILEGE_SEPARATION)?;
        generate_key(&dir.path().join("host_key"), &[])?;
        generate_key(&dir.path().join("key"), &[])?;
        std::fs::copy(dir.path().join("key.pub"), dir.path().join("authorized_keys"))?;
        let config = dir.path().join("config");
        let at = dir.path().display();
        std::fs::write(
            &config,
            format!(
                "HostKey {at}/host_key\nAuthorizedKeysFile {at}/authorized_keys\nPidFile none\nStrictModes no\n\
                 UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
                 PermitRootLogin prohibit-password\nAcceptEnv GIT_PROTOCOL\nLogLevel VERBOSE\n"
            ),
        )?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let authority = listener.local_addr()?.to_string();
        let connections = Arc::new(AtomicUsize::new(0));
        let serving = tokio::spawn(serve(listener, config, dir.path().join("log"), connections.clone()));
        Ok(Self { dir, repository, authority, connections, serving })
    }

    pub fn url(&self) -> String {
        format!("ssh://root@{}{}", self.authority, self.repository.path().display())
    }

    pub fn authority(&self) -> &str {
        &self.authority
    }

    pub fn repository(&self) -> &BareRepository {
        &self.repository
    }

    /// The name of the secret with the key.
    pub fn secret(&self) -> String {
        format!("ssh.{}", self.authority.replace(':', "_"))
    }

    /// The private key that may use the repository.
    pub fn key(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.dir.path().join("key"))?)
    }

    /// A private key that the server does not know.
    pub fn other_key(&self) -> Result<String> {
        let path = self.dir.path().join("other_key");
        generate_key(&path, &[])?;
        Ok(std::fs::read_to_string(path)?)
    }

    /// Makes a key with these options of `ssh-keygen` that may use the repository, instead of the others.
    pub fn authorize_key(&self, options: &[&str]) -> Result<String> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("key");
        generate_key(&path, options)?;
        std::fs::copy(dir.path().join("key.pub"), self.path("authorized_keys"))?;
        Ok(std::fs::read_to_string(path)?)
    }

    /// What `ssh-keyscan` prints.
    pub fn known_hosts(&self) -> Result<String> {
        let (host, port) = self.authority.split_once(':').context("a port")?;
        let key = std::fs::read_to_string(self.dir.path().join("host_key.pub"))?;
        Ok(format!("[{host}]:{port} {key}"))
    }

    /// Gives the server another host key.
    pub fn change_host_key(&self) -> Result<()> {
        let path = self.dir.path().join("host_key");
        std::fs::remove_file(&path)?;
        generate_key(&path, &[])
    }

    /// How many connections it accepted.
    pub fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    /// What sshd logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// A path for a file of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, config: PathBuf, log: PathBuf, connections: Arc<AtomicUsize>) {
    let mut served = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.fetch_add(1, Relaxed);
        let (config, log) = (config.clone(), log.clone());
        served.spawn(async move { serve_connection(stream, &config, &log).await });
    }
}

/// Serves a connection as inetd does: sshd has it as its input and output.
async fn serve_connection(stream: TcpStream, config: &Path, log: &Path) -> Result<()> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    let (input, output): (OwnedFd, OwnedFd) = (stream.try_clone()?.into(), stream.into());
    let log = std::fs::File::options().create(true).append(true).open(log)?;
    let mut command = tokio::process::Command::new(SSHD);
    command.args(["-i", "-e", "-f"]).arg(config);
    command.stdin(Stdio::from(input)).stdout(Stdio::from(output)).stderr(log).kill_on_drop(true);
    let mut child = command.spawn().context("start sshd")?;
    // Its copies of the connection would keep it open.
    drop(command);
    child.wait().await?;
    Ok(())
}

fn generate_key(path: &Path, options: &[&str]) -> Result<()> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-C", "test"]).args(options).arg("-f").arg(path);
    let output = command.output().context("run ssh-keygen")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
