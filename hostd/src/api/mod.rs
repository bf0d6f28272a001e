//! The public HTTP API, version 1. One table names every route; one pipeline serves them all.
//!
//! ```text
//!  TCP · Unix ─▶ serve ─▶ guard: request id, Host, Origin
//!                           └─▶ dispatch: authenticate ─▶ access ─▶ body ─▶ Idempotency-Key ─▶ handler
//!                                   │                                                           │
//!                                   └──▶ audit ◀── error: the one map from errors to JSON ◀─────┘
//! ```
//!
//! **Invariant:** no handler decides who may call it, reads a body by itself or builds an HTTP error. Calls that
//! change something run in a task of their own, so that a caller that disconnects leaves nothing half done.

mod access_lease;
mod access_routes;
mod activity;
mod agent_versions;
mod agents;
mod audit;
mod audit_writer;
mod authenticate;
mod backups;
mod budgets;
mod call;
mod capacity;
mod clients;
mod connection_permits;
mod dispatch;
mod drivers;
mod egress;
mod ensure;
mod error;
mod events;
mod exec_run;
mod execs;
mod files;
mod git;
mod host;
mod idempotency;
mod identity;
mod image_pulls;
mod images;
mod inspect;
mod lifecycle;
mod limits;
mod listening_ports;
mod metrics;
mod metrics_listener;
mod model_connection;
mod models;
mod not_found;
mod older;
mod openapi;
mod param;
mod peer;
mod permissions;
mod port_tunnels;
mod preview_links;
mod process_metrics;
mod query;
mod quotas;
mod rebinding_guard;
mod relay;
mod request_body;
mod request_trace;
mod route;
mod route_params;
mod routes;
mod sandboxes;
mod scrape;
mod secrets;
mod serve;
mod services;
mod shares;
mod snapshot_archives;
mod snapshot_permits;
mod snapshot_routes;
mod snapshots;
mod sse_writer;
mod state;
mod stream_limits;
mod task_agent;
mod task_changes;
mod task_request;
mod task_revert;
mod tasks;
mod terminal_frames;
mod terminal_socket;
mod terminals;
#[cfg(test)]
mod tests;
mod tls_warnings;
mod tokens;
mod tunnel_socket;
mod usage_sampler;
mod views;
mod warm_agents;
mod webhooks;
mod websocket;

pub use clients::ClientsAtEdge;
pub use dispatch::{Front, front, new_id};
pub use hostd_core::token_hash;
pub use images::ImageBackend;
pub use metrics::ApiMetrics;
pub use metrics_listener::serve_metrics;
pub use openapi::openapi_json;
pub use serve::{Listener, serve};
pub use state::{Api, ApiParts, Auth, Settings};
