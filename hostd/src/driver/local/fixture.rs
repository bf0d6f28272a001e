//! A sandbox for tests.

use crate::{core::Blueprint, driver::SandboxBadge};
use protocol::api::{IdlePolicy, Label, Limits, Network, Owner, PreviewHeaders};

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
    Blueprint {
        driver: "oci".into(),
        runtime: None,
        image: "host".into(),
        ports: vec![],
        services: vec![],
        limits: Limits { memory_mb: 512, cpus: 0.1, pids: 256, disk_mb: None },
        network: Network::None,
        egress: Default::default(),
        idle_policy: IdlePolicy::Sleep,
        visibility: None,
        preview_headers: PreviewHeaders::Localhost,
        ttl_ms: None,
    }
}
