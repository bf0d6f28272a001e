//! A network of its own, with loopback and nothing else, that lives as long as somebody holds this.

use anyhow::{Context, Result, ensure};
use nix::sched::{CloneFlags, unshare};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;

pub struct Space {
    net: File,
}

impl Space {
    pub fn new() -> Result<Self> {
        // Of this thread only, which ends here; whoever it starts is in there too.
        let made = std::thread::spawn(|| -> Result<File> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().context("run ip")?;
            ensure!(up.success(), "ip: {up}");
            Ok(File::open("/proc/thread-self/ns/net")?)
        });
        Ok(Self { net: made.join().ok().context("the thread that makes it panicked")?? })
    }

    /// A program in there.
    pub fn run(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/fd/{}", std::process::id(), self.net.as_raw_fd()));
        command.arg("--").arg(program);
        command
    }

    /// One that ends with the thread that starts it: see `starter`.
    pub fn run_bound(&self, program: &str) -> Command {
        let mut command = self.run("setpriv");
        command.args(["--pdeathsig", "KILL", program]);
        command
    }
}
