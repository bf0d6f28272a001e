//! The engine that people already run, Docker or Podman, driven through its socket.
//!
//! ```text
//! <data>/docker/<id>/         badge.json  run.json  control/  public/  pid
//! <data>/docker-workspaces/<id>/   the files, /home/sandbox inside
//! slipway-<instance>-<id>     the container, kept while the sandbox is stopped
//!
//!            launch                     ended                 clear
//!  Absent ───────────▶ Launching ─▶ Running ─────▶ Dead ───────────────▶ Absent
//!  (no container, or   (somebody    (PID 1 by     (a run whose end       (the container may
//!   none that runs)     is at it)    its pidfd)    nobody dealt with)     stay, for the next start)
//! ```
//!
//! The engine is needed to make, start, freeze and remove. Whether PID 1 lives, how to reach it, what it uses
//! and how to end it are the kernel's business, as they are for the embedded driver: with the engine dead or
//! hanging, what runs goes on.
//!
//! **Invariant:** a container is touched only when its labels are authentic for its name and name a launch
//! that is on our disk.

mod belongs;
mod body;
mod death;
mod driver;
mod end;
pub mod engine;
mod erased;
mod ids;
mod images;
mod keeper;
mod labels;
mod launch;
mod limits;
mod list;
mod look;
mod looks;
mod lost;
mod meaning;
mod mirror;
mod network;
mod notes;
mod open;
mod places;
mod probe;
mod remove;
mod run;
mod runtimes;
mod seen;
mod standing;
mod trial;
mod tunnel;
mod turns;

pub use driver::Docker;
pub use open::DockerConfig;
