//! Webhooks: which events an endpoint is told of, how a delivery is written and signed, which endpoint may be reached, and
//! when a delivery is tried, repeated and given up. Pure: the dispatcher of hostd performs it.
//!
//! ```text
//!  event of the log ─▶ messages ─▶ delivery (a row) ─▶ Schedule::pick ─▶ sign ─▶ POST ─▶ Verdict
//!                                       ▲                                                │
//!                                       └──────── waiting (backoff) ◀────────────────────┤
//!                                    delivered · dead · endpoint gone (disables) ◀───────┘
//! ```

mod endpoint;
mod messages;
mod schedule;
mod signature;
mod verdict;

pub use endpoint::{Endpoint, EndpointRefusal, InvalidEndpoint};
pub use messages::{LOG_KINDS, Message, gap_message, message_id, messages, test_message};
pub use schedule::{Concurrency, Head, Pick, Schedule};
pub use signature::{SigningKey, signatures};
pub use verdict::{RetryPolicy, Tries, Verdict, WebhookAnswer, decide};
