//! Whether an engine works: a container is created, started and removed, within a bound. An engine that is wedged still
//! answers a ping, and every test that uses it would wait for each of its own bounds.

use super::{Engine, Image, cleanup};
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const IMAGE: &str = "localhost/slipway-test-probe:1";
/// Far longer than a container takes on a machine with work for an hour.
const PROBE_MAX: Duration = Duration::from_secs(45);
/// How long a list of containers may take.
const LIST_MAX: Duration = Duration::from_secs(15);

impl Engine {
    /// Gives the engine the image that `probe` runs.
    pub(super) fn import_probe(&self) -> Result<()> {
        self.import(&Image { name: IMAGE, busybox: true, changes: &[] })
    }

    /// Runs a container and removes it. Fails with what the engine said last when it does not within the bound. Needs the
    /// image of `import_probe`.
    pub fn probe(&self) -> Result<()> {
        let run = ["run", "--rm", "--network", "none", IMAGE, "/bin/true"];
        let probed = self.ends_within(&run, PROBE_MAX);
        probed.with_context(|| {
            format!("{:?} does not run containers; it said last:{}", self.kind, self.said_last())
        })
    }

    /// Runs a command of the engine's program that must succeed within a bound.
    fn ends_within(&self, arguments: &[&str], bound: Duration) -> Result<()> {
        let mut command = self.command(arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if started.elapsed() >= bound {
                child.kill()?;
                child.wait()?;
                anyhow::bail!("{arguments:?} takes longer than {bound:?}");
            }
            cleanup::pause();
        };
        let mut said = String::new();
        child.stderr.take().context("its standard error")?.read_to_string(&mut said)?;
        ensure!(status.success(), "{arguments:?}: {status}: {said}");
        Ok(())
    }

    /// Whether it lists its containers, which takes the lock of each.
    pub(super) fn lists_containers(&self) -> bool {
        lists_containers(&self.socket()).unwrap_or(false)
    }
}

fn lists_containers(socket: &Path) -> Result<bool> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LIST_MAX))?;
    stream.write_all(b"GET /containers/json?all=1 HTTP/1.1\r\nhost: engine\r\nconnection: close\r\n\r\n")?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    Ok(head.ends_with(b" 200"))
}
