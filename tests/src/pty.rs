//! A program on a terminal of its own, as a person sits before it.

use crate::sandbox::PATIENCE;
use anyhow::{Context, Result, bail, ensure};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::{Pid, ttyname};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitStatus;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Pieces of output that wait to be looked at.
const QUEUE_MAX: usize = 1024;

pub struct OnTerminal {
    child: Child,
    /// Our end.
    master: File,
    /// Its end, kept open so that its modes can be looked at when the program is gone.
    slave: OwnedFd,
    name: PathBuf,
    output: mpsc::Receiver<Vec<u8>>,
    shown: Vec<u8>,
    before: Termios,
}

impl OnTerminal {
    /// Starts the command on a new terminal, 24 by 80; standard error goes there too.
    pub fn start(command: &Command) -> Result<Self> {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(Some(&size), None)?;
        let (name, before) = (ttyname(&pair.slave)?, tcgetattr(&pair.slave)?);
        let inner = command.as_std();
        // A session of its own whose terminal this is: signals come as they do to a person's shell.
        let mut outer = Command::new("setsid");
        outer.arg("--ctty").arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => outer.env(name, value),
                None => outer.env_remove(name),
            };
        }
        outer.stdin(pair.slave.try_clone()?).stdout(pair.slave.try_clone()?).stderr(pair.slave.try_clone()?);
        let child = outer.kill_on_drop(true).spawn().context("setsid")?;
        let master = File::from(pair.master);
        let (sender, output) = mpsc::channel(QUEUE_MAX);
        let mut reading = master.try_clone()?;
        // Ends when both ends of the terminal are gone.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = reading.read(&mut buffer) {
                if sender.blocking_send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, master, slave: pair.slave, name, output, shown: Vec::new(), before })
    }

    pub fn types(&mut self, keys: &str) -> Result<()> {
        Ok(self.master.write_all(keys.as_bytes())?)
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.child.id().context("it has ended")?;
        Ok(kill(Pid::from_raw(i32::try_from(pid)?), signal)?)
    }

    /// As when a window is made larger or smaller.
    pub async fn resizes(&self, cols: u16, rows: u16) -> Result<()> {
        let (cols, rows) = (cols.to_string(), rows.to_string());
        let name = self.name.to_str().context("a name")?;
        let arguments = ["-F", name, "cols", cols.as_str(), "rows", rows.as_str()];
        ensure!(Command::new("stty").args(arguments).status().await?.success(), "stty failed");
        Ok(())
    }

    /// Returns the output up to and including `sign`; later output is kept for the next call.
    pub async fn sees(&mut self, sign: &str) -> Result<String> {
        let mut searched = 0;
        loop {
            let found = self.shown[searched..].windows(sign.len()).position(|at| at == sign.as_bytes());
            if let Some(at) = found {
                let seen: Vec<u8> = self.shown.drain(..searched + at + sign.len()).collect();
                return Ok(String::from_utf8_lossy(&seen).into_owned());
            }
            searched = self.shown.len().saturating_sub(sign.len());
            let piece = timeout(PATIENCE, self.output.recv()).await;
            let piece = piece.with_context(|| format!("{sign:?} is never shown, only {:?}", self.text()))?;
            let Some(piece) = piece else { bail!("ended before {sign:?}: {:?}", self.text()) };
            self.shown.extend(piece);
        }
    }

    /// Returns the output that was shown and not yet read.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown).into_owned()
    }

    /// Whether the terminal is now as it was before the program began.
    pub fn as_before(&self) -> Result<bool> {
        Ok(tcgetattr(&self.slave)? == self.before)
    }

    /// Waits for its end: the status, and what was shown and not yet asked for. Its terminal must be as before.
    pub async fn ends(mut self) -> Result<(ExitStatus, String)> {
        let status = timeout(PATIENCE, self.child.wait()).await;
        let status = status.with_context(|| format!("does not end, shows {:?}", self.text()))??;
        ensure!(self.as_before()?, "the terminal is not as it was");
        drop(self.slave);
        let rest = async {
            while let Some(piece) = self.output.recv().await {
                self.shown.extend(piece);
            }
        };
        timeout(PATIENCE, rest).await.context("the terminal stays open")?;
        Ok((status, String::from_utf8_lossy(&self.shown).into_owned()))
    }
}
