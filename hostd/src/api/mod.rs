//! The public HTTP API, version 1. One table names every route; one pipeline serves them all.
//!
//! ```text
//!  TCP · Unix ─▶ serve ─▶ guard: request id, Host, Origin
//!                           └─▶ dispatch: identity ─▶ access ─▶ body ─▶ Idempotency-Key ─▶ handler
//!                                   │                                                       │
//!                                   └──▶ audit ◀── failure: the one map from errors to JSON ◀┘
//! ```
//!
//! **Invariant:** no handler decides who may call it, reads a body by itself or words an HTTP error. What
//! changes something runs in a task of its own, so that a caller who hangs up leaves nothing half done.

mod activity;
mod admission;
mod agent_versions;
mod agents;
mod audit;
mod audits;
mod body;
mod budgets;
mod call;
mod connection;
mod dispatch;
mod doc;
mod drivers;
mod egress;
mod ensure;
mod events;
mod exec_run;
mod execs;
mod failure;
mod host;
mod hosts;
mod idempotency;
mod identity;
mod images;
mod keyed;
mod lifecycle;
mod limits;
mod links;
mod listening;
mod looks;
mod metrics;
mod missing;
mod models;
mod older;
mod openapi;
mod param;
mod params;
mod pass;
mod permissions;
mod pieces;
mod query;
mod route;
mod routes;
mod sandboxes;
mod serve;
mod services;
mod sse;
mod state;
mod task_agent;
mod task_request;
mod tasks;
mod terminals;
#[cfg(test)]
mod tests;
mod tokens;
mod viewer;
mod viewers;
mod views;
mod warm;

pub use crate::tokens::hash_of;
pub use dispatch::router;
pub use images::Images;
pub use openapi::openapi_json;
pub use serve::{Listener, serve};
pub use state::{Api, Auth, Settings};
