//! Runs a command beside one dockerd and one Podman that all tests share, and removes both with everything they ran
//! when the command ends. An engine that does not answer is reported and started again. Variables in the command's
//! environment name their directories (`tests::engines`).
//!
//! usage: shared-engines COMMAND [ARGUMENT...]

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::ExitCode;
use std::sync::Arc;
use tests::engines::SharedEngines;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let program = words.next().context("usage: shared-engines COMMAND [ARGUMENT...]")?;
    // The command gets the signals of a terminal too and ends; the engines are removed after it.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let engines = Arc::new(spawn_blocking(SharedEngines::start).await??);
    let (watch, ended) = std::sync::mpsc::sync_channel(0);
    let watched = engines.clone();
    let watching = spawn_blocking(move || watched.watch(&ended));
    let mut child =
        Command::new(program).args(words).envs(engines.variables()).spawn().context("start it")?;
    let status = loop {
        tokio::select! {
            // Waiting again continues the same wait.
            ended = child.wait() => break ended?,
            // A signal that is lost with the future is repeated by its sender at worst.
            _ = interrupt.recv() => {}
            _ = terminate.recv() => stop(&child)?,
        }
    };
    drop(watch);
    watching.await?;
    drop(engines);
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Asks the command to end in order.
fn stop(child: &Child) -> Result<()> {
    let Some(pid) = child.id() else { return Ok(()) };
    Ok(kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?)
}
