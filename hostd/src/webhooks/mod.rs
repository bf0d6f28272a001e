//! Webhooks: endpoints are told of events of the log, at least once, in the order of each sandbox. One task reads the log
//! for each webhook, records deliveries and sends them; nothing waits for it.
//!
//! ```text
//!  log ─▶ worker ─▶ rows (with the cursor, in one transaction) ─▶ core::webhook::Schedule ─▶ attempt ─▶ endpoint
//!           ▲                                                                                  │
//!           └────────────────────── end of the attempt (a row), next of the sandbox ◀──────────┘
//! ```

mod attempt;
mod client;
mod limits;
mod log_reader;
mod metrics;
mod service;
#[cfg(test)]
mod tests;
mod worker;

pub use client::EndpointClient;
pub use service::{SecretProblem, WebhookParts, Webhooks};
