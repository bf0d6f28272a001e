//! The lifecycle of PID 1, in three stages: bring-up, cruise, shutdown.

use crate::api;
use crate::config::{Config, VARIABLES};
use crate::log::EventLog;
use crate::supervisor::{Handle, Supervisor};
use crate::sys::clock::wall_ms;
use crate::sys::fs_identity::{self, IdentityError};
use crate::sys::{inherited_fds, kill_all, signals, socket, tmp_dirs};
use protocol::Fact;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::UnixListener;

/// Exit codes of sysexits(3): wrong configuration, and an internal error.
const EXIT_USAGE: u8 = 64;
const EXIT_SOFTWARE: u8 = 70;

#[derive(Debug, thiserror::Error)]
enum BootError {
    #[error("become a subreaper: {0}")]
    Subreaper(nix::Error),
    #[error("leave all groups: {0}")]
    Groups(IdentityError),
    #[error("prepare {path}: {source}")]
    Prepare { path: String, source: io::Error },
    #[error("take over what an earlier boot left: {0}")]
    Supervisor(io::Error),
}

pub fn main() -> ExitCode {
    signals::reset_inherited();
    signals::block_termination();
    // A value that is no UTF-8 is still a value, and a wrong one.
    let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let config = match Config::from_env(variable) {
        Ok(config) => Arc::new(config),
        Err(error) => return usage(&error.to_string()),
    };
    start_logging();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return usage(&format!("could not start: {error}")),
    };
    runtime.block_on(async {
        match bring_up(&config) {
            Ok(ready) => cruise(ready).await,
            Err(error) => usage(&format!("could not {error}")),
        }
    })
}

struct Ready {
    supervisor: Supervisor,
    handle: Handle,
    control: UnixListener,
    public: Option<UnixListener>,
}

fn bring_up(config: &Arc<Config>) -> Result<Ready, BootError> {
    inherited_fds::close_on_exec_all();
    // Root's groups would also apply under the user's identity.
    fs_identity::drop_groups().map_err(BootError::Groups)?;
    let pid1 = nix::unistd::getpid().as_raw() == 1;
    if pid1 {
        tmp_dirs::make_world_writable();
    } else {
        nix::sys::prctl::set_child_subreaper(true).map_err(BootError::Subreaper)?;
        tracing::warn!("not PID 1: acting as a subreaper");
    }
    let at = |path: &std::path::Path| {
        let path = path.display().to_string();
        move |source| BootError::Prepare { path, source }
    };
    socket::private_directory(&config.control_dir).map_err(at(&config.control_dir))?;
    let events_dir = config.control_dir.join("events");
    let (events, recovered) = EventLog::open(&events_dir, wall_ms() / 1000).map_err(at(&events_dir))?;
    let boot = Fact::Boot { version: env!("CARGO_PKG_VERSION").to_owned(), pid1 };
    let gap = (recovered.cut_bytes > 0).then(|| Fact::Gap {
        lost_bytes: recovered.cut_bytes,
        lost_events: 0,
        reason: "the end of the log was torn".to_owned(),
    });
    let (supervisor, handle) =
        Supervisor::new(Arc::clone(config), events, boot, gap).map_err(BootError::Supervisor)?;
    signals::unblock_termination();
    let control_path = config.control_dir.join("sock");
    let control = socket::listen(&control_path, 0o600).map_err(at(&control_path))?;
    // The sandbox works without the public socket; an image may have no directory for it.
    let public = socket::listen_public(&config.public_socket)
        .inspect_err(
            |error| tracing::warn!(path = %config.public_socket.display(), %error, "failed to listen on public socket"),
        )
        .ok();
    tracing::info!(control = %control_path.display(), pid1, "ready");
    Ok(Ready { supervisor, handle, control, public })
}

/// Serves until the supervisor has ended. The listeners are dropped with it.
async fn cruise(ready: Ready) -> ExitCode {
    let Ready { supervisor, handle, control, public } = ready;
    let supervising = tokio::spawn(supervisor.run());
    let public = async {
        match public {
            Some(listener) => api::serve_public(listener, handle.clone()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        // The first to end ends all; only the supervisor is meant to.
        ended = supervising => match ended {
            Ok(_) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(%error, "supervisor panicked; killing all processes");
                kill_all::kill_everything();
                ExitCode::from(EXIT_SOFTWARE)
            }
        },
        _ = api::serve_control(control, handle.clone()) => ExitCode::from(EXIT_SOFTWARE),
        _ = public => ExitCode::from(EXIT_SOFTWARE),
    }
}

/// Logs lines with fields to stderr.
fn start_logging() {
    let level = if std::env::var_os("RUNTIMED_DEBUG").is_some() {
        tracing::Level::DEBUG
    } else {
        tracing::Level::INFO
    };
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(level)
        .with_ansi(false)
        .with_target(false)
        // An error of the logger would be printed to stderr too, and panic there: its disk may be full.
        .log_internal_errors(false)
        .init();
}

fn usage(message: &str) -> ExitCode {
    eprintln!("runtimed: {message}");
    ExitCode::from(EXIT_USAGE)
}

pub fn print_version() -> ExitCode {
    println!("runtimed {}", env!("CARGO_PKG_VERSION"));
    ExitCode::SUCCESS
}

pub fn print_help() -> ExitCode {
    println!(
        "runtimed: PID 1 of a Slipway sandbox\n\nRun without arguments. It is configured by environment variables:\n"
    );
    for (name, default, meaning) in VARIABLES {
        println!("  {name:<24}{meaning}\n{:<26}[{default}]", "");
    }
    println!("\nSIGTERM or SIGINT shuts it down in order; it exits 0. Wrong configuration: exit 64.");
    ExitCode::SUCCESS
}

pub fn refuse_argument(argument: &str) -> ExitCode {
    usage(&format!("unknown argument {argument:?}; see runtimed --help"))
}
