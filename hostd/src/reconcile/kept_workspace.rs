//! What a destroyed sandbox left. Nobody owns one, so there is no owner to ask.

use super::{Fleet, FleetError};
use protocol::api::{SandboxId, SandboxStatus};

impl Fleet {
    /// Takes away the files that were kept; how many bytes those were, nothing where there were none. May be
    /// repeated.
    pub async fn delete_kept_workspace(&self, id: &SandboxId) -> Result<Option<u64>, FleetError> {
        let record = self.record(id).await?;
        if record.state.status != SandboxStatus::Destroyed {
            return Err(FleetError::InProgress);
        }
        let driver = self.driver_of(&record);
        let bytes = driver.workspace_bytes(id).await?;
        if bytes.is_some() {
            driver.destroy(id, false).await?;
        }
        Ok(bytes)
    }
}
