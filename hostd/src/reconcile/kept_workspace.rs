//! Deletes the kept workspace of a destroyed sandbox, which has no actor any more.

use super::{Fleet, FleetError};
use protocol::api::{SandboxId, SandboxStatus};

impl Fleet {
    /// Deletes a kept workspace. Returns how many bytes it had; `None` where there was none. May be repeated.
    pub async fn delete_kept_workspace(&self, id: &SandboxId) -> Result<Option<u64>, FleetError> {
        let record = self.record(id).await?;
        if record.state.status != SandboxStatus::Destroyed {
            return Err(FleetError::InProgress);
        }
        let driver = self.driver_of(&record);
        let bytes = driver.workspace_bytes(id).await?;
        if bytes.is_some() {
            driver.destroy(id, false).await?;
            self.store().record_workspace_sizes(vec![(*id, 0)]).await?;
            self.charge_layers_soon().await;
        }
        Ok(bytes)
    }
}
