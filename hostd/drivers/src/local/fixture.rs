//! A sandbox for tests.

use crate::SandboxBadge;
use hostd_core::Blueprint;
use protocol::api::{Label, Limits, Owner};

pub fn badge() -> SandboxBadge {
    let label = |text: &str| Label::parse(text).expect("a label");
    SandboxBadge {
        sandbox: "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id"),
        name: "one".into(),
        owner: Owner { tenant: label("t"), principal: label("p"), project: label("d") },
        scope: None,
        created_ms: 7,
        details: None,
    }
}

pub fn blueprint() -> Blueprint {
    Blueprint::bare("oci", Limits { memory_mb: 512, cpus: 0.1, pids: 256, disk_mb: None })
}
