//! The driver for a container engine on this host, Docker or Podman, through its socket.
//!
//! ```text
//! <data>/docker/<id>/         badge.json  run.json  control/  public/  pid
//! <data>/docker-workspaces/<id>/   the files, /home/sandbox inside
//! slipway-<instance>-<id>     the container, kept while the sandbox is stopped
//!
//!            launch                     exit                  clear
//!  Absent ───────────▶ Launching ─▶ Running ─────▶ Dead ───────────────▶ Absent
//!  (no container, or   (lock held)  (PID 1 by     (a run whose exit      (the container may
//!   none that runs)                  its pidfd)    is not handled)        stay, for the next start)
//! ```
//!
//! The engine creates, starts, freezes and removes. Whether PID 1 lives, how to connect to it, what it uses
//! and how to end it is asked of the kernel, as in the `oci` driver: running sandboxes go on while the engine
//! is dead or hangs.
//!
//! **Invariant:** a container is touched only when its labels are authentic for its name and name a launch
//! that is on our disk.

use super::local::container_paths;

mod cgroup_membership;
mod classify_state;
mod container_cache;
mod container_config;
mod death;
mod destroy;
mod destroyed_launches;
mod driver;
pub mod engine;
mod engine_checks;
mod engine_connection;
mod engine_health;
mod freeze;
mod images;
mod inspect;
mod inspect_queue;
mod labels;
mod last_inspect;
mod launch;
mod leftovers;
mod limits;
mod list;
mod network;
mod open_driver;
mod podman_list_recovery;
mod probe;
mod remove_container;
mod resize;
mod run_record;
mod runtimes;
mod terminate;
mod test_containers;
mod tunnel;
mod verify_container;

pub use driver::Docker;
pub use open_driver::DockerConfig;
