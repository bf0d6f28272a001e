//! Starts the launcher, which becomes the runtime, and waits for it. Dropping the future kills everything
//! that was started.

use super::{
    super::DriverError,
    cgroup::Cgroup,
    files::failed,
    init_exit::last_lines,
    limits::{LAUNCH_MAX_MS, OUTPUT_MAX_BYTES, OUTPUT_MAX_LINES},
};
use futures_util::StreamExt;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use std::{ffi::OsString, fs::File, path::PathBuf, process::ExitStatus, time::Duration};
use tokio::process::Command;
use tokio_process_stream::{Item, ProcessChunkStream};

/// Arguments and files for the launcher.
pub struct RuntimeCommand {
    pub launcher: PathBuf,
    /// The locked launch lock, passed as standard input.
    pub lock: File,
    pub stdio: PathBuf,
    /// Control group files to join, and the mount to hide.
    pub tasks: Vec<PathBuf>,
    pub hide: Option<PathBuf>,
    /// Directory to mount without devices and set-id programs, whatever options the runtime drops.
    pub shield: Option<PathBuf>,
    /// The mount below the shielded directory that stays visible.
    pub keep: Option<PathBuf>,
    /// The layers of the image that become one tree.
    pub merge: Option<MergedLayers>,
    pub command: Vec<OsString>,
}

/// The layers of an image, and where they are mounted as one tree.
pub struct MergedLayers {
    pub at: PathBuf,
    /// Topmost first.
    pub layers: Vec<PathBuf>,
    /// The first id of the sandbox on the host, where files can be shown with its ids.
    pub ids: Option<u32>,
}

/// Runs the runtime until it exits, which is when PID 1 runs. Its messages are in the error.
pub async fn run_to_end(command_line: RuntimeCommand, group: &Cgroup) -> Result<(), DriverError> {
    let mut kill_guard = KillOnDrop { group, pgid: None };
    let limit = Duration::from_millis(LAUNCH_MAX_MS);
    let Ok(ended) = tokio::time::timeout(limit, collect_output(command_line, &mut kill_guard)).await else {
        return Err(DriverError::TimedOut { what: "the launch of the sandbox", after_ms: LAUNCH_MAX_MS });
    };
    let (status, output) = ended?;
    if status.success() {
        kill_guard.disarm();
        return Ok(());
    }
    let output = last_lines(&output, OUTPUT_MAX_LINES);
    let why = output.last().map_or_else(|| status.to_string(), Clone::clone);
    Err(DriverError::Failed { message: format!("the runtime could not start the sandbox: {why}"), output })
}

async fn collect_output(
    command_line: RuntimeCommand,
    kill_guard: &mut KillOnDrop<'_>,
) -> Result<(ExitStatus, Vec<u8>), DriverError> {
    let mut stream = spawn_launcher(command_line)?;
    kill_guard.pgid = stream.child().and_then(tokio::process::Child::id).map(|id| Pid::from_raw(id as i32));
    let mut output = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Item::Stdout(bytes) | Item::Stderr(bytes) => keep_end(&mut output, &bytes),
            Item::Done(status) => {
                return Ok((status.map_err(failed("wait for the runtime"))?, output));
            }
        }
    }
    Err(DriverError::Failed { message: "the runtime ended without a status".to_owned(), output: vec![] })
}

/// No `pre_exec`, working directory or ids: so std can start it without a fork.
fn spawn_launcher(command_line: RuntimeCommand) -> Result<ProcessChunkStream, DriverError> {
    let mut command = Command::new(&command_line.launcher);
    command.arg("launch").arg("--stdio").arg(&command_line.stdio);
    for file in &command_line.tasks {
        command.arg("--tasks").arg(file);
    }
    if let Some(dir) = &command_line.hide {
        command.arg("--hide").arg(dir);
    }
    if let Some(dir) = &command_line.shield {
        command.arg("--shield").arg(dir);
    }
    if let Some(dir) = command_line.keep.as_ref().filter(|_| command_line.shield.is_some()) {
        command.arg("--keep").arg(dir);
    }
    if let Some(merge) = &command_line.merge {
        command.arg("--merge-at").arg(&merge.at);
        for layer in &merge.layers {
            command.arg("--layer").arg(layer);
        }
        if let Some(first) = merge.ids {
            command.arg("--ids").arg(first.to_string());
        }
    }
    command.arg("--").args(&command_line.command);
    command.env_clear().stdin(command_line.lock).process_group(0).kill_on_drop(true);
    ProcessChunkStream::try_from(command)
        .map_err(failed(format!("start {}", command_line.launcher.display())))
}

/// Kills what was started, unless disarmed.
struct KillOnDrop<'a> {
    group: &'a Cgroup,
    /// The runtime's process group, while it may exist.
    pgid: Option<Pid>,
}

impl KillOnDrop<'_> {
    fn disarm(&mut self) {
        self.pgid = None;
    }
}

impl Drop for KillOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(pgid) = self.pgid.take() {
            let _ = killpg(pgid, Signal::SIGKILL);
            self.group.kill_all();
        }
    }
}

fn keep_end(output: &mut Vec<u8>, more: &[u8]) {
    output.extend_from_slice(more);
    if output.len() > OUTPUT_MAX_BYTES {
        output.drain(..output.len() - OUTPUT_MAX_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_bounded_and_its_end_is_kept() {
        let mut output = Vec::new();
        for n in 0..10_000 {
            keep_end(&mut output, format!("line {n}\n").as_bytes());
        }
        assert!(output.len() <= OUTPUT_MAX_BYTES);
        assert_eq!(last_lines(&output, 2), ["line 9998", "line 9999"]);
        assert_eq!(last_lines(b"\xff\n\n", 5), ["\u{fffd}"]);
    }
}
