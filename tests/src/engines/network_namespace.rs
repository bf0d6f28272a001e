//! A private network namespace with loopback only, which lives as long as this value.

use anyhow::{Context, Result, ensure};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::Pid;
use std::fs::File;
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

    /// A program in there.
    pub fn run(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/fd/{}", std::process::id(), self.net.as_raw_fd()));
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
