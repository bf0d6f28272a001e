//! What E2B knows of a sandbox and Slipway does not: kept in the store beside the sandbox, out of sight of the user's
//! metadata. A sandbox that was not made through E2B has the default.

use crate::{Clients, token_holder::TokenHolder};
use hostd_store::StoreError;
use protocol::api::SandboxId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::error;

const PROTOCOL: &str = "e2b";
/// Holders of tokens of one sandbox at a time.
const HOLDERS_MAX: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct E2bRecord {
    /// The template as asked for; empty for a sandbox that was not made through E2B.
    pub template: String,
    pub at_timeout: AtTimeout,
    /// Whether a request to a paused sandbox resumes it.
    pub auto_resume: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_internet_access: Option<bool>,
    /// The rules as asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Value>,
    /// How often a connect resumed it: holders that come now get a token of this generation.
    pub generation: u64,
    /// Who got a token of envd since the last of these connects, and who made it: signed URLs are checked with the
    /// tokens of all of them. Newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<HandedOut>,
}

/// A token of envd that a holder has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOut {
    pub holder: TokenHolder,
    pub generation: u64,
}

/// What happens when the timeout has passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtTimeout {
    #[default]
    Kill,
    /// Its memory is kept.
    Pause,
    /// Only its files are kept.
    PauseFiles,
}

impl E2bRecord {
    pub fn is_made_by_e2b(&self) -> bool {
        !self.template.is_empty()
    }

    /// Returns the generation of the one token that a holder has or would get.
    pub fn generation_of(&self, holder: &TokenHolder) -> u64 {
        let handed_out = self.holders.iter().find(|known| known.holder == *holder);
        handed_out.map_or(self.generation, |known| known.generation)
    }

    /// Returns the record after a connect of this holder resumed the sandbox. Its own token stays valid, since an SDK goes
    /// on with the sandbox object that it has; tokens of all others end.
    #[must_use]
    pub fn resumed_by(mut self, holder: &TokenHolder) -> Self {
        self.generation = self.generation.saturating_add(1);
        self.holders.retain(|known| known.holder == *holder);
        self
    }
}

pub async fn load(clients: &Clients, sandbox: &SandboxId) -> Result<E2bRecord, StoreError> {
    let document = clients.parts.store.client_record(sandbox, PROTOCOL).await?;
    Ok(parse(sandbox, document.as_deref()))
}

/// Returns the records of all sandboxes of these that have one.
pub async fn load_all(
    clients: &Clients,
    sandboxes: Vec<SandboxId>,
) -> Result<Vec<(SandboxId, E2bRecord)>, StoreError> {
    let documents = clients.parts.store.client_records(sandboxes, PROTOCOL).await?;
    Ok(documents.iter().map(|(sandbox, document)| (*sandbox, parse(sandbox, Some(document)))).collect())
}

/// Writes the record of a new sandbox, and returns it. One that there is stays: the request was repeated.
pub async fn insert(
    clients: &Clients,
    sandbox: &SandboxId,
    record: E2bRecord,
) -> Result<E2bRecord, StoreError> {
    change(clients, sandbox, move |present| match present.is_made_by_e2b() {
        true => present,
        false => E2bRecord { generation: present.generation, holders: present.holders, ..record },
    })
    .await
}

/// Notes who gets the token of a sandbox, and returns the record as it is then.
pub async fn hand_out(
    clients: &Clients,
    sandbox: &SandboxId,
    holder: &TokenHolder,
) -> Result<E2bRecord, StoreError> {
    let holder = holder.clone();
    change(clients, sandbox, move |mut record| {
        if !record.holders.iter().any(|known| known.holder == holder) {
            let excess = (record.holders.len() + 1).saturating_sub(HOLDERS_MAX);
            record.holders.drain(..excess);
            record.holders.push(HandedOut { holder, generation: record.generation });
        }
        record
    })
    .await
}

/// Changes a record in one transaction, and returns it as it is then.
pub async fn change(
    clients: &Clients,
    sandbox: &SandboxId,
    compute: impl FnOnce(E2bRecord) -> E2bRecord + Send + 'static,
) -> Result<E2bRecord, StoreError> {
    let id = *sandbox;
    let compute = move |document: Option<String>| {
        let present = parse(&id, document.as_deref());
        let next = compute(present.clone());
        let changed = document.is_none() || next != present;
        changed.then(|| serde_json::to_string(&next).expect("a record has only text keys"))
    };
    let document = clients.parts.store.change_client_record(sandbox, PROTOCOL, Box::new(compute)).await?;
    Ok(parse(sandbox, document.as_deref()))
}

fn parse(sandbox: &SandboxId, document: Option<&str>) -> E2bRecord {
    let Some(document) = document else { return E2bRecord::default() };
    serde_json::from_str(document).unwrap_or_else(|error| {
        error!(%sandbox, %error, "the E2B record of a sandbox is damaged: it has the default");
        // Not the first generation, which was valid once.
        E2bRecord { generation: u64::MAX, ..E2bRecord::default() }
    })
}
