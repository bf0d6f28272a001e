//! The alternatives, each as its users would run it, with a configuration of its own in a directory of its
//! own: nothing of the machine's is used or changed.

use super::target::{Target, children};
use super::upstream::free_address;
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

pub struct Proxy {
    dir: TempDir,
    child: Child,
    pub target: Target,
}

/// How nginx talks to what is behind it.
#[derive(Clone, Copy)]
pub enum Nginx {
    /// As its documentation tells those who want it fast.
    KeepAlive,
    /// `proxy_pass` and nothing else.
    Default,
}

impl Proxy {
    /// Debian's own settings, but for what is said here.
    pub async fn nginx(kind: Nginx, upstream: &str) -> Result<Self> {
        let dir = directory()?;
        let address = free_address()?;
        let at = dir.path().display();
        let (name, keep, to) = match kind {
            Nginx::KeepAlive => (
                "nginx, keep-alive",
                format!("upstream app {{ server {upstream}; keepalive 64; }}"),
                "proxy_pass http://app; proxy_http_version 1.1;
                 proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;"
                    .to_owned(),
            ),
            Nginx::Default => ("nginx, default", String::new(), format!("proxy_pass http://{upstream};")),
        };
        let config = format!(
            "daemon off; worker_processes auto; pid {at}/pid;
             error_log {at}/error.log;
             events {{ worker_connections 16384; }}
             http {{
               sendfile on; tcp_nopush on; types_hash_max_size 2048; gzip on; access_log off;
               client_body_temp_path {at}/body; proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/fastcgi;
               uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
               map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
               {keep}
               server {{ listen {address}; location / {{ {to} proxy_read_timeout 1h; }} }}
             }}"
        );
        std::fs::write(dir.path().join("nginx.conf"), config)?;
        let mut command = Command::new("nginx");
        command.arg("-p").arg(dir.path()).arg("-c").arg(dir.path().join("nginx.conf"));
        command.arg("-e").arg(dir.path().join("error.log"));
        Self::start(dir, command, name, address).await
    }

    pub async fn caddy(upstream: &str) -> Result<Self> {
        let dir = directory()?;
        let address = free_address()?;
        let config = format!(
            "{{\n  admin off\n  auto_https off\n}}\nhttp://{address} {{\n  reverse_proxy {upstream}\n}}\n"
        );
        std::fs::write(dir.path().join("Caddyfile"), config)?;
        let mut command = Command::new("caddy");
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(dir.path().join("Caddyfile"));
        command.env("HOME", dir.path());
        Self::start(dir, command, "caddy", address).await
    }

    async fn start(dir: TempDir, mut command: Command, name: &'static str, address: String) -> Result<Self> {
        let log = std::fs::File::create(dir.path().join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("start {name} (scripts/bench installs it)"))?;
        let pid = i32::try_from(child.id())?;
        // The name under which it is asked for is its address: neither looks at names here.
        let target = Target { name, host: address.clone(), address, pids: vec![pid], network_of: None };
        let mut proxy = Self { dir, child, target };
        let answers = super::probe::until_it_answers(&proxy.target.address, &proxy.target.host).await;
        answers.with_context(|| format!("{name} said: {}", proxy.said()))?;
        // The server that answers has started its workers.
        proxy.target.pids.extend(children(pid));
        Ok(proxy)
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let _ = self.child.wait();
    }
}

/// Workers are another user.
fn directory() -> Result<TempDir> {
    let dir = tempfile::Builder::new().prefix("bench-proxy-").tempdir()?;
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711))?;
    Ok(dir)
}
