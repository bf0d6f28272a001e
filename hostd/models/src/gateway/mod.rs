//! The model gateway: agents reach the provider of their model through it, with a key that is valid for one
//! task only. Only inference is forwarded, and responses are relayed as they come.
//!
//! ```text
//!  agent ──▶ route ──▶ task_key ──▶ model_request ──▶ authorizer (budget) ──▶ retry ──▶ provider_client ──▶ provider
//!    ▲                    (dialect)                                                                           │
//!    └────────── response_relay ◀──── response_inspector (dialect: usage, errors, end) ◀──────────────────────┘
//! ```

mod authorizer;
mod base_url;
mod call_limits;
mod call_record;
mod cancel_with_task;
mod collect_body;
mod connection_pool;
mod dialect;
mod estimate_tokens;
mod external_refs;
mod headers;
mod idle_timeout;
mod json;
mod limits;
mod list_models;
mod metrics;
mod model_request;
mod provider_client;
mod provider_connection;
mod provider_error;
mod provider_failure;
mod provider_metrics;
mod redact_key;
mod refusal;
mod rejected_call;
mod response_inspector;
mod response_relay;
mod retry;
mod route;
mod serve;
mod sse_reader;
mod task_key;
#[cfg(test)]
mod tests;

pub use cancel_with_task::CancelWithTask;
pub use dialect::compatible_variant;
pub(super) use dialect::default_base_url;
pub use list_models::{ListModelsError, ModelList};
pub use metrics::GatewayMetrics;
pub use serve::Gateway;
