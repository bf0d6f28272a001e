//! `slipway down`: stops hostd, and with --all every sandbox first.

use crate::{
    client::{ApiRequest, Target},
    context::{Context, parse_items},
    failure::Failure,
    limits,
    progress::Progress,
    sandbox_wait,
};
use clap::Args;
use futures_util::{StreamExt, TryStreamExt, stream};
use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        socket::{getsockopt, sockopt::PeerCredentials},
    },
    unistd::Pid,
};
use protocol::api::{SandboxStatus, SandboxView};
use std::{io, os::unix::net::UnixStream, path::Path};
use tokio::time::{Instant, sleep};

const STOPS_AT_ONCE: usize = 16;

#[derive(Debug, Args)]
pub struct DownArgs {
    /// Stop every sandbox first; their files are kept
    #[arg(long, short)]
    all: bool,
}

pub async fn run(context: &Context, args: DownArgs) -> Result<(), Failure> {
    let command = if args.all { "down --all" } else { "down" };
    let Target::Socket(socket) = context.client.target() else { return context.require_local(command, "") };
    let serving =
        serving(socket).map_err(|error| Failure::io(format!("reach {}", socket.display()), error))?;
    let pid = match serving {
        Serving::NotRunning => return context.output.line("hostd is not running"),
        Serving::Pid(pid) => pid,
        Serving::OtherPidNamespace => {
            return Err(Failure::new("hostd runs in another PID namespace and cannot be stopped from here")
                .hint("run this in the namespace where hostd was started"));
        }
    };
    if args.all {
        stop_all(context).await?;
    }
    let progress = Progress::start(context.output, "stopping hostd");
    terminate(pid).await?;
    drop(progress);
    context.output.line(if args.all {
        "hostd and all sandboxes are stopped"
    } else {
        "hostd is stopped; sandboxes keep running"
    })
}

/// The process that listens on the socket.
enum Serving {
    NotRunning,
    Pid(Pid),
    /// hostd has no pid in our namespace. The kernel reports 0, and a signal to 0 would reach our own process group.
    OtherPidNamespace,
}

fn serving(socket: &Path) -> io::Result<Serving> {
    match UnixStream::connect(socket) {
        Ok(stream) => Ok(match getsockopt(&stream, PeerCredentials)?.pid() {
            ..=0 => Serving::OtherPidNamespace,
            pid => Serving::Pid(Pid::from_raw(pid)),
        }),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Ok(Serving::NotRunning)
        }
        Err(error) => Err(error),
    }
}

async fn stop_all(context: &Context) -> Result<(), Failure> {
    let items = context.client.list(ApiRequest::get("/v1/sandboxes").long_pages()).await?;
    let mut views = parse_items::<SandboxView>(items)?;
    views.retain(|view| !matches!(view.status, SandboxStatus::Stopped | SandboxStatus::Destroyed));
    let progress = Progress::start(context.output, "stopping sandboxes");
    let stops = views.iter().map(|view| {
        let request = ApiRequest::post(format!("/v1/sandboxes/{}/stop", view.id));
        sandbox_wait::send_and_wait(context, view.id, request, &progress)
    });
    stream::iter(stops).buffer_unordered(STOPS_AT_ONCE).try_for_each(|_| async { Ok(()) }).await
}

/// Sends SIGTERM and waits for the end; hostd first drains its requests.
async fn terminate(pid: Pid) -> Result<(), Failure> {
    let failed = |error: Errno| Failure::io(format!("stop hostd, process {pid}"), error.into());
    kill(pid, Signal::SIGTERM).map_err(failed)?;
    let deadline = Instant::now() + limits::HOSTD_STOP_TIMEOUT;
    loop {
        match kill(pid, None) {
            Err(Errno::ESRCH) => return Ok(()),
            Err(error) => return Err(failed(error)),
            Ok(()) if zombie(pid) => return Ok(()),
            Ok(()) if Instant::now() > deadline => {
                return Err(Failure::new(format!("hostd (pid {pid}) does not exit"))
                    .hint(format!("read its log; `kill -KILL {pid}` is safe, no state is lost")));
            }
            Ok(()) => sleep(limits::HOSTD_POLL).await,
        }
    }
}

/// Returns whether the process is a zombie: it has ended, but its parent has not reaped it.
fn zombie(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}
