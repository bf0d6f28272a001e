//! Constraints of the fields of webhooks.

use super::{
    super::param::NUMBER_MAX,
    constraints::{Row, TITLE, VISIBLE, text, whole},
};
use protocol::api::{
    WEBHOOK_DESCRIPTION_MAX_CHARS, WEBHOOK_EVENTS_MAX, WEBHOOK_URL_MAX_BYTES, WebhookEvents,
};
use serde_json::json;

/// Without a user, a password and a fragment.
const URL: &str = "^https?://(?![^/?]*@)[!\"$-~]+$";
const DELIVERY_ID_MAX_BYTES: usize = 256;

pub fn rows() -> Vec<Row> {
    let url = || text(1, WEBHOOK_URL_MAX_BYTES, URL);
    let events = || json!({"minItems": 1, "maxItems": WEBHOOK_EVENTS_MAX});
    let description = || text(1, WEBHOOK_DESCRIPTION_MAX_CHARS, TITLE);
    vec![
        ("WebhookEvents", "", json!({"enum": WebhookEvents::patterns()})),
        ("WebhookCreate", "url", url()),
        ("WebhookCreate", "events", events()),
        ("WebhookCreate", "description", description()),
        ("WebhookChange", "url", url()),
        ("WebhookChange", "events", events()),
        ("WebhookChange", "description", description()),
        ("RedeliverRequest", "delivery", text(1, DELIVERY_ID_MAX_BYTES, VISIBLE)),
        ("RedeliverRequest", "since", whole(0, NUMBER_MAX)),
    ]
}
