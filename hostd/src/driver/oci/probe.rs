//! What a runtime has to do before it is trusted.

use super::{
    super::{Driver, DriverError},
    driver::Oci,
    ending::stdio_lines,
    trial,
};
use protocol::api::SandboxId;

impl Oci {
    pub(super) async fn probe(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let handle = self.launch(&trial::order(sandbox, self.name())).await?;
        let pid = handle.0["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        trial::check_hardening(pid)?;
        if trial::answers(self, sandbox).await {
            return Ok(());
        }
        let output = stdio_lines(&self.inner.dir(sandbox));
        Err(DriverError::Failed { message: "its PID 1 does not answer".to_owned(), output })
    }
}
