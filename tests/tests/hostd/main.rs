//! hostd through its API, with real crun.

mod api;
mod doze;
mod drivers;
mod ensure;
mod events;
mod execs;
mod files;
mod lifecycle;
mod models;
mod older;
mod ownership;
mod post_mortem;
mod requests;
mod seeds;
mod services;
mod task_changes;
mod task_log;
mod tasks;
mod terminals;
mod tunnels;
mod viewers;
mod workspace_files;
