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

mod cgroup_membership;
mod classify_state;
mod container_cache;
mod container_config;
mod container_paths;
mod death;
mod destroy;
mod driver;
pub mod engine;
mod engine_checks;
mod engine_connection;
mod engine_health;
mod erased_launches;
mod freeze;
mod images;
mod inspect;
mod inspect_queue;
mod labels;
mod last_inspect;
mod launch;
mod launch_locks;
mod limits;
mod list;
mod network;
mod open_driver;
mod podman_list_recovery;
mod probe;
mod remove_container;
mod run_record;
mod runtimes;
mod terminate;
mod test_containers;
mod tunnel;
mod verify_container;

pub use driver::Docker;
pub use open_driver::DockerConfig;
