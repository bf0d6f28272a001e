//! A private network namespace with loopback only, which lives as long as this value.

use anyhow::{Context, Result, ensure};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::Pid;
use std::fs::File;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::process::Command;

pub struct NetworkNamespace {
    net: File,
}

impl NetworkNamespace {
    pub fn new() -> Result<Self> {
        // Only this thread enters the namespace, and it ends here; processes that it starts are inside too.
        let made = std::thread::spawn(|| -> Result<File> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().context("run ip")?;
            ensure!(up.success(), "ip: {up}");
            Ok(File::open("/proc/thread-self/ns/net")?)
        });
        Ok(Self { net: made.join().ok().context("the thread that makes it panicked")?? })
    }

    /// That of a process.
    pub fn of(pid: Pid) -> Result<Self> {
        Ok(Self { net: File::open(format!("/proc/{pid}/ns/net"))? })
    }

    /// Its path, for other programs of this machine.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.net.as_raw_fd())
    }

    /// Joins two namespaces by a wire with an address at each end. It goes with either of them.
    pub fn join(&self, own: IpAddr, other: &Self, others: IpAddr) -> Result<()> {
        let there = other.path();
        self.ip(&["link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", &there])?;
        for (space, address) in [(self, own), (other, others)] {
            space.ip(&["addr", "add", &format!("{address}/24"), "dev", "wire"])?;
            space.ip(&["link", "set", "wire", "up"])?;
        }
        Ok(())
    }

    /// A listener in there, on a free port, that any thread may use.
    pub fn listen(&self, address: IpAddr) -> Result<TcpListener> {
        let net = self.net.try_clone()?;
        // Only this thread enters the namespace, and it ends here; a socket stays in the one where it was made.
        let bound = std::thread::spawn(move || -> Result<TcpListener> {
            setns(net, CloneFlags::CLONE_NEWNET)?;
            Ok(TcpListener::bind(SocketAddr::new(address, 0))?)
        });
        bound.join().ok().context("the thread that listens panicked")?
    }

    fn ip(&self, arguments: &[&str]) -> Result<()> {
        let output = self.run("ip").args(arguments).output().context("run ip")?;
        ensure!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// A program in there.
    pub fn run(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path()));
        command.arg("--").arg(program);
        command
    }

    /// A process that ends with the thread that starts it: see `daemon_thread`.
    pub fn run_bound(&self, program: &str) -> Command {
        let mut command = self.run("setpriv");
        command.args(["--pdeathsig", "KILL", program]);
        command
    }
}
