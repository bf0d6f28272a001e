//! Freezes and thaws the control groups of a sandbox.

use super::{
    super::DriverError, driver::OciInner, files::failed, init_exit::poll_until, limits::FREEZE_MAX_MS,
};
use protocol::api::SandboxId;

impl OciInner {
    pub async fn freeze(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let group = self.cgroup(sandbox);
        group.set_frozen(true).map_err(failed("freeze the sandbox"))?;
        if poll_until(FREEZE_MAX_MS, || Ok(group.is_frozen())).await? {
            return Ok(());
        }
        // A sandbox that is frozen in part is worse than a running one.
        group.set_frozen(false).map_err(failed("thaw the sandbox"))?;
        Err(DriverError::TimedOut { what: "freezing the sandbox", after_ms: FREEZE_MAX_MS })
    }

    pub fn thaw(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.cgroup(sandbox).set_frozen(false).map_err(failed("thaw the sandbox"))
    }
}
