//! The probe sandbox: a backend must launch it, confined as requested, and answer through it, before it is
//! used.

use super::{
    super::{Driver, DriverError, LaunchRequest, ProgressSink, SandboxBadge, Target},
    files::{self, failed},
    init::proc_of,
    limits::{DISK_MIN_MB, KERNEL_FILE_MAX_BYTES, POLL_MS, PROBE_ANSWER_MAX_MS},
};
use hostd_core::Blueprint;
use protocol::api::{Label, Limits, Owner, SandboxId};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// No generated id is all zeros: its timestamp would be 1970.
pub const PROBE_ID: &str = "00000000000000000000000000";
/// `/proc/<pid>/status` of PID 1: the capabilities SETUID, SETGID and KILL, and a seccomp filter.
const STATUS_EXPECTED: [(&str, &str); 4] = [
    ("CapBnd:", "00000000000000e0"),
    ("CapEff:", "00000000000000e0"),
    ("NoNewPrivs:", "1"),
    ("Seccomp:", "2"),
];

pub fn probe_id() -> SandboxId {
    PROBE_ID.parse().expect("twenty-six zeros are an id")
}

/// Whether PID 1 accepts a connection in time.
pub async fn wait_until_answering(driver: &dyn Driver, sandbox: &SandboxId) -> bool {
    let answered = async {
        while driver.dial(sandbox, Target::Control).await.is_err() {
            tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
        }
    };
    timeout(Duration::from_millis(PROBE_ANSWER_MAX_MS), answered).await.is_ok()
}

/// Checks that PID 1 is confined: a runtime that ignores unknown settings would run it without confinement.
pub fn check_hardening(pid: i32) -> Result<(), DriverError> {
    let status = proc_of(pid).join("status");
    let text = files::read_text(&status, KERNEL_FILE_MAX_BYTES).map_err(failed("inspect PID 1"))?;
    for (name, expected) in STATUS_EXPECTED {
        let found = text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        if found != Some(expected) {
            let found = found.unwrap_or("nothing");
            let message = format!("PID 1 is not confined: {name} {found} in place of {expected}");
            return Err(DriverError::Failed { message, output: vec![] });
        }
    }
    Ok(())
}

pub fn probe_order(sandbox: &SandboxId, driver: &str) -> LaunchRequest {
    let label = |text: &str| Label::parse(text).expect("a plain word is a label");
    let owner = Owner { tenant: label("slipway"), principal: label("slipway"), project: label("probe") };
    let badge = SandboxBadge {
        sandbox: *sandbox,
        name: "probe".to_owned(),
        owner,
        scope: None,
        created_ms: 0,
        details: None,
    };
    let blueprint = Blueprint::bare(driver, Limits { memory_mb: 64, cpus: 1.0, pids: 64, disk_mb: None });
    LaunchRequest { badge, attempt: 1, blueprint: Arc::new(blueprint), progress: ProgressSink::default() }
}

/// The same with a disk limit.
pub fn probe_order_with_disk(sandbox: &SandboxId, driver: &str) -> LaunchRequest {
    let order = probe_order(sandbox, driver);
    let mut blueprint = (*order.blueprint).clone();
    blueprint.limits.disk_mb = Some(DISK_MIN_MB);
    LaunchRequest { blueprint: Arc::new(blueprint), ..order }
}
