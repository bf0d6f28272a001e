//! The world outside of an engine's network: one address, one wire, and a server that answers.

use super::{Engine, network_namespace::NetworkNamespace};
use anyhow::{Context, Result, ensure};
use std::process::{Child, Command, Stdio};

/// An unassigned address, from a documentation range.
const THERE: &str = "198.51.100.2";
const HERE: &str = "198.51.100.1";

pub struct ExternalNetwork {
    server: Child,
    space: NetworkNamespace,
}

impl ExternalNetwork {
    pub fn of(engine: &Engine) -> Result<Self> {
        let space = NetworkNamespace::new()?;
        let root = engine.path().join("outside");
        std::fs::create_dir_all(&root)?;
        std::fs::write(root.join("index.html"), "hello")?;
        let mut server = space.run("busybox");
        server.args(["httpd", "-f", "-p", "80", "-h"]).arg(&root).stdin(Stdio::null());
        let server = server.spawn().context("start busybox (busybox-static)")?;
        let outside = Self { server, space };
        outside.connect(engine)?;
        Ok(outside)
    }

    pub fn url(&self) -> String {
        format!("http://{THERE}/")
    }

    /// Neither side knows more of the other than the two addresses of the wire.
    fn connect(&self, engine: &Engine) -> Result<()> {
        // The daemon answered, so it is in its network namespace.
        let daemon = engine.pid()?.to_string();
        let (here, there) = (format!("{HERE}/24"), format!("{THERE}/24"));
        ip(&self.space, &["link", "add", "in0", "type", "veth", "peer", "name", "out0", "netns", &daemon])?;
        ip(&self.space, &["addr", "add", &there, "dev", "in0"])?;
        ip(&self.space, &["link", "set", "in0", "up"])?;
        ip(&engine.space, &["addr", "add", &here, "dev", "out0"])?;
        ip(&engine.space, &["link", "set", "out0", "up"])
    }
}

fn ip(space: &NetworkNamespace, arguments: &[&str]) -> Result<()> {
    let mut command: Command = space.run("ip");
    let output = command.args(arguments).output()?;
    ensure!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

impl Drop for ExternalNetwork {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
