//! A container with the app in it and a port that docker publishes: in a network of dockerd's own, so that
//! the machine's is left alone.

use crate::{
    docker::{Docker, HARDENED, IMAGE},
    edge::upstream::{self, PORT, WORD},
};
use anyhow::{Context, Result, ensure};
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tests::sandbox::PATIENCE;

/// The network namespace is private, so the port is free.
const ADDRESS: &str = "127.0.0.1:8000";
/// Before the app listens, docker's proxy accepts and hangs up, or does neither.
const TRY_MAX: Duration = Duration::from_secs(2);

/// A container whose port can be reached at an address.
pub struct Published {
    pub id: String,
    pub address: String,
}

impl Docker {
    pub fn publish(&self) -> Result<Published> {
        let program = upstream::copy_to(self.path())?;
        let (publish, app) = (format!("{ADDRESS}:{PORT}"), format!("0.0.0.0:{PORT}"));
        let volume = format!("{}:/app:ro", program.display());
        // All but the first two, which say that there is no network.
        let hardened = &HARDENED[2..];
        let run = ["run", "--detach", "--publish", &publish, "--volume", "/usr:/usr:ro", "--volume", &volume];
        let id = self.detached(&[&run, hardened, &[IMAGE, "/app", WORD, &app]].concat())?;
        let published = Published { id, address: ADDRESS.to_owned() };
        self.until_it_answers(&published)?;
        Ok(published)
    }

    /// Processes that copy bytes between published ports and containers.
    pub fn port_proxies(&self) -> Result<Vec<i32>> {
        let mut found = crate::edge::target::children(self.pid()?);
        found.retain(|pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim() == "docker-proxy"
        });
        ensure!(!found.is_empty(), "docker publishes without a proxy");
        Ok(found)
    }

    /// Asks, in dockerd's network, until there is a good answer.
    pub fn until_it_answers(&self, published: &Published) -> Result<()> {
        let network = File::open(format!("/proc/{}/ns/net", self.pid()?))?;
        let address = published.address.clone();
        let asking = std::thread::spawn(move || {
            // Of this thread only, which ends here.
            setns(network, CloneFlags::CLONE_NEWNET)?;
            let started = Instant::now();
            while !answers(&address).unwrap_or(false) {
                ensure!(started.elapsed() < PATIENCE, "the container never answers");
            }
            Ok(())
        });
        asking.join().ok().context("the thread that asks panicked")?
    }
}

fn answers(address: &str) -> Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TRY_MAX))?;
    stream.write_all(format!("GET / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes())?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    Ok(head.ends_with(b" 200"))
}
