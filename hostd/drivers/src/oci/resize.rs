//! Changes the limits of a sandbox that runs or is frozen.

use super::{super::DriverError, driver::OciInner};
use crate::local::{blueprint_checks::check_limits, local_driver::LocalDriver};
use protocol::api::{Limits, SandboxId};
use std::sync::Arc;

impl OciInner {
    pub async fn resize(self: &Arc<Self>, sandbox: &SandboxId, limits: &Limits) -> Result<(), DriverError> {
        check_limits(limits)?;
        let (id, limits) = (*sandbox, limits.clone());
        let inner = Arc::clone(self);
        let change = async move {
            // The kernel may take a while to free memory.
            let work = move |inner: &Self| {
                inner.resize_group(&inner.cgroup(&id), &limits)?;
                inner.record_limits(&id, &limits)
            };
            inner.spawn_blocking(work).await
        };
        self.resizes.run(id, change).await
    }
}
