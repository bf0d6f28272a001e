//! Webhooks: endpoints of a tenant, or of the operator, that are told of events. Deliveries follow the Standard Webhooks
//! specification.

use super::{Label, SandboxId};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Longest URL of a webhook, in bytes.
pub const WEBHOOK_URL_MAX_BYTES: usize = 2048;
/// Patterns of events in one webhook.
pub const WEBHOOK_EVENTS_MAX: usize = 64;
pub const WEBHOOK_DESCRIPTION_MAX_CHARS: usize = 200;

/// The types of events that webhooks are told of. Beside them there are `webhook.test` and `webhook.gap`, which are no
/// matter of choice.
pub const WEBHOOK_TYPES: &[&str] = &[
    "sandbox.created",
    "sandbox.adopted",
    "sandbox.wanted",
    "sandbox.running",
    "sandbox.paused",
    "sandbox.stopped",
    "sandbox.destroyed",
    "sandbox.error",
    "sandbox.ended",
    "sandbox.evicted",
    "sandbox.renewed",
    "sandbox.delayed",
    "sandbox.changed",
    "sandbox.replaced",
    "sandbox.shared",
    "sandbox.unshared",
    "sandbox.drift",
    "attempt.started",
    "attempt.launched",
    "attempt.succeeded",
    "attempt.failed",
    "setup.started",
    "setup.succeeded",
    "setup.failed",
    "setup.interrupted",
    "task.status",
    "task.build",
    "task.usage",
    "task.done",
    "task.reverted",
    "permission.asked",
    "permission.decided",
    "budget.exceeded",
    "limit.reached",
    "exec.started",
    "exec.ended",
    "service.state",
    "service.ended",
    "egress.denied",
    "git.fetch",
    "git.push",
    "log.gap",
];

/// Which events a webhook is told of: a type as in `task.done`, a family as in `task.*`, or `*` for all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String))]
#[serde(try_from = "String", into = "String")]
pub struct WebhookEvents(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadWebhookEvents;

impl fmt::Display for BadWebhookEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be a type of events as in task.done, a family as in task.*, or *; docs/webhooks.md lists them")
    }
}

impl std::error::Error for BadWebhookEvents {}

impl WebhookEvents {
    /// Selects all events.
    pub fn all() -> Self {
        Self("*".to_owned())
    }

    /// Returns whether events of a type are selected.
    pub fn admits(&self, kind: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(family) => kind.starts_with(family),
            None => self.0 == kind,
        }
    }

    /// Every valid pattern: all, families, types.
    pub fn patterns() -> Vec<String> {
        let families = WEBHOOK_TYPES.iter().filter_map(|kind| kind.split_once('.'));
        let mut patterns: Vec<String> = families.map(|(family, _)| format!("{family}.*")).collect();
        patterns.dedup();
        patterns.insert(0, "*".to_owned());
        patterns.extend(WEBHOOK_TYPES.iter().map(|kind| (*kind).to_owned()));
        patterns
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for WebhookEvents {
    type Err = BadWebhookEvents;
    fn from_str(text: &str) -> Result<Self, BadWebhookEvents> {
        let is_family = |family: &str| family.is_empty() || family.ends_with('.');
        let selects = |pattern: &Self| WEBHOOK_TYPES.iter().any(|kind| pattern.admits(kind));
        let pattern = Self(text.to_owned());
        let plain = text.strip_suffix('*').is_none_or(is_family);
        if plain && selects(&pattern) { Ok(pattern) } else { Err(BadWebhookEvents) }
    }
}

impl TryFrom<String> for WebhookEvents {
    type Error = BadWebhookEvents;
    fn try_from(text: String) -> Result<Self, BadWebhookEvents> {
        text.parse()
    }
}

impl From<WebhookEvents> for String {
    fn from(events: WebhookEvents) -> Self {
        events.0
    }
}

impl fmt::Display for WebhookEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A webhook to create.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WebhookCreate {
    /// `https://` address without user and password. `http://` and addresses that are not public only where the
    /// configuration of the host allows them.
    pub url: String,
    /// Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<WebhookEvents>>,
    /// Only events of this sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxId>,
    /// Only events of sandboxes of this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Tenant of the webhook; by default that of the caller. Only the operator names another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Label>,
    /// Events of all tenants; only for the operator.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_tenants: bool,
}

/// Changes of a webhook; absent fields stay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct WebhookChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<WebhookEvents>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// false: nothing is delivered until it is enabled again, and then everything since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WebhookStatus {
    Enabled,
    Disabled,
}

/// Why nothing is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WebhookDisabledReason {
    /// A caller disabled it.
    Caller,
    /// The endpoint answered 410.
    Gone,
}

/// The last attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookFailure {
    pub at: String,
    pub error: String,
}

/// A webhook, without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookView {
    pub id: String,
    /// Absent: of all tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Label>,
    pub url: String,
    pub events: Vec<WebhookEvents>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub status: WebhookStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<WebhookDisabledReason>,
    /// Principal that created the webhook.
    pub created_by: String,
    pub created_at: String,
    pub updated_at: String,
    /// Number of the event up to which deliveries were made from the event log. It may trail behind where no event was
    /// selected.
    pub cursor: u64,
    /// Deliveries that wait for an attempt or for a repetition.
    pub waiting: u64,
    /// Deliveries that were given up, and can be delivered again.
    pub dead: u64,
    /// Deliveries that were given up and removed since: too many, or too long ago.
    pub dropped: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_delivery_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<WebhookFailure>,
    /// Until then deliveries are signed with the previous secret too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_secret_until: Option<String>,
}

/// A created webhook. Only this response and that of a rotation contain the secret.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookCreated {
    #[serde(flatten)]
    pub view: WebhookView,
    /// `whsec_` and the key of the signatures in base64.
    pub secret: String,
}

/// The result of a test: one request that was sent at once, and not recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookTest {
    /// `webhook-id` of the request.
    pub id: String,
    /// Whether the endpoint answered with a status of success.
    pub delivered: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub duration_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It waits for an attempt or for a repetition.
    Waiting,
    Delivered,
    /// It was given up.
    Dead,
}

/// A delivery of a webhook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryView {
    /// `webhook-id` of its requests: the same for each attempt.
    pub id: String,
    /// Number of the event.
    pub seq: u64,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxId>,
    pub state: DeliveryState,
    pub attempts: u64,
    pub created_at: String,
    /// When the next attempt is due, unless an earlier delivery of the sandbox waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Status of the last response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_status: Option<u16>,
    /// Why the last attempt failed, with the beginning of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// What to deliver again: exactly one field.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RedeliverRequest {
    /// The delivery with this id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
    /// true: all that were given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead: Option<bool>,
    /// All events after the one with this number, delivered or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
}

/// What is delivered again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Redelivered {
    /// Deliveries that wait for an attempt now.
    pub deliveries: u64,
    /// The cursor, where it was set back: the events after it follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_selects_a_type_a_family_or_all() {
        for (pattern, kind, selected) in [
            ("*", "task.done", true),
            ("task.*", "task.done", true),
            ("task.*", "sandbox.created", false),
            ("task.done", "task.done", true),
            ("task.done", "task.status", false),
        ] {
            let pattern: WebhookEvents = pattern.parse().expect("a pattern");
            assert_eq!(pattern.admits(kind), selected, "{pattern} {kind}");
        }
        for bad in ["", "task", "task.", "task.d*", "t*", "**", "*.*", "nothing.*", "task.message", "TASK.*"]
        {
            assert!(bad.parse::<WebhookEvents>().is_err(), "{bad:?}");
        }
        for pattern in WebhookEvents::patterns() {
            assert_eq!(pattern.parse::<WebhookEvents>().map(String::from), Ok(pattern));
        }
    }
}
