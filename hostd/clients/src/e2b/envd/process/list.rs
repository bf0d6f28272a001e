//! The processes that run.

use super::{
    exec_id,
    messages::{ProcessConfig, ProcessInfo, ProcessList},
};
use crate::e2b::{
    connect::ConnectError,
    envd::{limits::PROCESSES_MAX, sandbox_api::SandboxApi},
};
use protocol::{
    ExecState,
    api::{ExecAnswer, Page},
};

/// All of the sandbox, those that other clients started included.
pub async fn list(api: &SandboxApi) -> Result<ProcessList, ConnectError> {
    let page: Page<ExecAnswer> = api.get(&format!("/execs?running=1&limit={PROCESSES_MAX}")).await?;
    Ok(ProcessList { processes: page.items.into_iter().filter_map(info).collect() })
}

/// Environments are not told: no record of hostd has them.
fn info(exec: ExecAnswer) -> Option<ProcessInfo> {
    let pid = exec.pid.filter(|_| exec.state == ExecState::Running)?;
    let mut argv = exec.argv.into_iter();
    let cmd = argv.next().unwrap_or_default();
    let cwd = Some(exec.cwd).filter(|cwd| !cwd.is_empty());
    let config = ProcessConfig { cmd, args: argv.collect(), envs: std::collections::BTreeMap::new(), cwd };
    Some(ProcessInfo { config, pid, tag: exec_id::tag(&exec.id) })
}
