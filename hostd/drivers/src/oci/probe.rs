//! The probe of a runtime: it must run a whole sandbox, confined as requested, before it is used.

use super::{
    super::{Driver, DriverError},
    driver::Oci,
    init_exit::stdio_lines,
    probe_sandbox,
};
use crate::local::local_driver::LocalDriver;
use protocol::api::SandboxId;

impl Oci {
    pub(super) async fn probe(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let handle = self.launch(&probe_sandbox::probe_order(sandbox, self.name())).await?;
        let pid = handle.0["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        probe_sandbox::check_hardening(pid)?;
        if probe_sandbox::wait_until_answering(self, sandbox).await {
            return Ok(());
        }
        let output = stdio_lines(&self.inner.dir(sandbox));
        Err(DriverError::Failed { message: "its PID 1 does not answer".to_owned(), output })
    }
}
