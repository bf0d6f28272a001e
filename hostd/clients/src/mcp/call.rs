//! The context of one request of a client: who asks, in which session, and under which id.

use super::session::Session;
use crate::{ApiClient, Clients};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use protocol::api::IdentityView;
use rmcp::model::{ProgressToken, RequestId};

const PURPOSE: &str = "mcp work";

#[derive(Clone)]
pub struct Call {
    pub clients: Clients,
    /// Slipway's own API, as the caller.
    pub api: ApiClient,
    pub caller: IdentityView,
    pub session: Session,
    pub id: RequestId,
    /// Where the client wants progress.
    pub progress: Option<ProgressToken>,
}

impl Call {
    /// Returns the id of what this request starts: a request that is sent again finds what the first one started.
    pub fn work_id(&self) -> String {
        work_id(&self.clients, &self.session, &self.id)
    }
}

/// Returns the id of what a request with this id starts. Fit for execs, tasks and `Idempotency-Key`.
pub fn work_id(clients: &Clients, session: &Session, request: &RequestId) -> String {
    let number = serde_json::to_vec(request).expect("a number or text");
    let signature = clients.parts.key.sign(PURPOSE, &[session.nonce(), &number]);
    format!("mcp{}", BASE64.encode(signature))
}
