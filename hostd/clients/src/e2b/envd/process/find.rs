//! Finds the exec that a client means.

use super::{
    exec_id,
    messages::{OfProcess, Selector},
};
use crate::e2b::{
    connect::{Code, ConnectError},
    envd::{limits::PROCESSES_MAX, sandbox_api::SandboxApi},
};
use protocol::api::{ExecAnswer, Page};

/// The running process that the selector names, else the newest that has ended.
pub async fn exec(api: &SandboxApi, selector: Option<&Selector>) -> Result<ExecAnswer, ConnectError> {
    let selector = selector.ok_or_else(|| ConnectError::invalid("the request names no process"))?;
    match (selector.pid, selector.tag.as_deref()) {
        (Some(pid), None) => {
            let missing = || not_found(&format!("process with pid {}", pid.0));
            // No process has it; the API takes those that one can have.
            if pid.0 == 0 || pid.0 > 1 << 22 {
                return Err(missing());
            }
            let found: Page<ExecAnswer> = api.get(&format!("/execs?pid={}", pid.0)).await?;
            found.items.into_iter().next().ok_or_else(missing)
        }
        (None, Some(tag)) => {
            let is_meant = |exec: &ExecAnswer| exec_id::tag(&exec.id).as_deref() == Some(tag);
            for only in ["&running=1", ""] {
                let page: Page<ExecAnswer> = api.get(&format!("/execs?limit={PROCESSES_MAX}{only}")).await?;
                if let Some(found) = page.items.into_iter().find(is_meant) {
                    return Ok(found);
                }
            }
            Err(not_found(&format!("process with tag {tag:?}")))
        }
        (None, None) | (Some(_), Some(_)) => {
            Err(ConnectError::invalid("a process is named by its pid or its tag"))
        }
    }
}

pub async fn of(api: &SandboxApi, request: &OfProcess) -> Result<ExecAnswer, ConnectError> {
    exec(api, request.process.as_ref()).await
}

fn not_found(subject: &str) -> ConnectError {
    ConnectError::new(Code::NotFound, format!("{subject} not found"))
}
