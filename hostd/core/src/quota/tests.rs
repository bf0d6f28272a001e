use super::*;
use crate::{Goal, Operation};
use protocol::api::{Label, Owner, Phase, QuotaHolder, QuotaScope};

fn limits(memory_mb: u64, cpus: f64) -> Limits {
    Limits { memory_mb, cpus, pids: 256, disk_mb: None }
}

fn short(quota: &Quota, used: &Usage, demand: &Demand) -> Option<(QuotaResource, u64)> {
    check_quota(quota, used, demand).err().map(|shortage| (shortage.resource, shortage.used))
}

#[test]
fn what_fits_is_allowed_up_to_the_limit_itself() {
    let create = Demand::create(&limits(512, 0.5));
    let used = Usage {
        sandboxes: 6,
        running: 2,
        memory_mb: 1024,
        cpus_milli: 1_000,
        disk: DiskUse { workspaces_bytes: 9 << 20, kept_workspaces_bytes: 1, ..DiskUse::default() },
        ..Usage::default()
    };
    let table = [
        (Quota::default(), None),
        (Quota { sandboxes: Some(7), ..Quota::default() }, None),
        (Quota { sandboxes: Some(6), ..Quota::default() }, Some((QuotaResource::Sandboxes, 6))),
        (Quota { running: Some(2), ..Quota::default() }, Some((QuotaResource::Running, 2))),
        (Quota { memory_mb: Some(1536), ..Quota::default() }, None),
        (Quota { memory_mb: Some(1535), ..Quota::default() }, Some((QuotaResource::MemoryMb, 1024))),
        (Quota { cpus: Some(1.5), ..Quota::default() }, None),
        (Quota { cpus: Some(1.49), ..Quota::default() }, Some((QuotaResource::Cpus, 1_000))),
        // Files are refused when the quota is used up: part of a megabyte counts as one.
        (Quota { disk_mb: Some(11), ..Quota::default() }, None),
        (Quota { disk_mb: Some(10), ..Quota::default() }, Some((QuotaResource::DiskMb, 10))),
        (Quota { events_mb: Some(0), preview_connections: Some(0), ..Quota::default() }, None),
        (Quota { tasks_queued: Some(0), tasks_running: Some(0), ..Quota::default() }, None),
    ];
    for (quota, expected) in table {
        assert_eq!(short(&quota, &used, &create), expected, "{quota:?}");
    }
}

#[test]
fn an_owner_over_its_quota_may_do_what_adds_nothing() {
    let quota = Quota { memory_mb: Some(100), cpus: Some(1.0), running: Some(0), ..Quota::default() };
    let used = Usage { memory_mb: 900, cpus_milli: 9_000, running: 9, ..Usage::default() };
    let table = [
        (Demand::resize(&limits(512, 1.0), &limits(256, 0.5)), None),
        (Demand::resize(&limits(512, 1.0), &limits(513, 0.5)), Some((QuotaResource::MemoryMb, 900))),
        (Demand::resize(&limits(512, 1.0), &limits(512, 1.1)), Some((QuotaResource::Cpus, 9_000))),
        (Demand::default(), None),
    ];
    for (demand, expected) in table {
        assert_eq!(short(&quota, &used, &demand), expected, "{demand:?}");
        assert_eq!(binds(&quota, &demand), !demand.is_empty(), "{demand:?}");
    }
}

#[test]
fn a_sandbox_that_is_replaced_makes_room_for_its_successor() {
    let demand = Demand::create(&limits(512, 0.5));
    let quota = Quota { sandboxes: Some(1), running: Some(1), memory_mb: Some(512), ..Quota::default() };
    let used = Usage { sandboxes: 1, running: 1, memory_mb: 512, cpus_milli: 500, ..Usage::default() };
    assert_eq!(short(&quota, &used, &demand), Some((QuotaResource::Sandboxes, 1)));
    assert_eq!(short(&quota, &used.without(&demand), &demand), None);
}

#[test]
fn a_sandbox_counts_as_up_until_it_is_down() {
    let at = |goal, status| State { goal, status, ..State::at(Goal::Stopped) };
    let table = [
        (State::new(9), true),
        (State::at(Goal::Running), true),
        (State::at(Goal::Paused), true),
        (at(Goal::Stopped, SandboxStatus::Running), true),
        (at(Goal::Destroyed, SandboxStatus::Paused), true),
        // On its way up again.
        (at(Goal::Running, SandboxStatus::Error), true),
        (State::at(Goal::Stopped), false),
        (at(Goal::Stopped, SandboxStatus::Error), false),
        (at(Goal::Destroyed, SandboxStatus::Stopped), false),
        (State::at(Goal::Destroyed), false),
    ];
    for (state, expected) in table {
        let operation = Some(Operation { phase: Phase::Stopping, deadline_ms: 9 });
        for state in [State { operation, ..state.clone() }, state] {
            assert_eq!(counts_as_up(&state), expected, "{state:?}");
        }
    }
}

#[test]
fn a_quota_is_written_with_the_words_of_the_flags() {
    let text = "sandboxes=20, running=5,memory=8g,cpus=1.5,disk=50G,tasks-queued=9,tasks-running=2,events=512,\
                preview-connections=100";
    let all = Quota {
        sandboxes: Some(20),
        running: Some(5),
        memory_mb: Some(8192),
        cpus: Some(1.5),
        disk_mb: Some(51_200),
        tasks_queued: Some(9),
        tasks_running: Some(2),
        events_mb: Some(512),
        preview_connections: Some(100),
    };
    let none = Quota { running: Some(0), ..Quota::default() };
    for (text, expected) in [(text, all), ("", Quota::default()), ("running=0", none)] {
        assert_eq!(parse_quota(text), Ok(expected), "{text}");
    }
    for wrong in [
        "sandboxes",
        "boxes=1",
        "running=-1",
        "running=",
        "memory=8x",
        "cpus=no",
        "cpus=-1",
        "disk=99999999999t",
    ] {
        assert!(parse_quota(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn limits_are_finite() {
    for cpus in [f64::NAN, f64::INFINITY, -0.5] {
        let error = validate_quota(&Quota { cpus: Some(cpus), ..Quota::default() }).expect_err("no quota");
        assert_eq!(error.detail.field.as_deref(), Some("cpus"));
    }
    let error = validate_quota(&Quota { disk_mb: Some(u64::MAX), ..Quota::default() }).expect_err("no quota");
    assert_eq!(error.detail.field.as_deref(), Some("disk_mb"));
    assert_eq!(validate_quota(&Quota { running: Some(0), cpus: Some(0.0), ..Quota::default() }), Ok(()));
}

#[test]
fn a_refusal_says_what_is_used_and_how_to_free_it() {
    let label = |text| Label::parse(text).expect("a label");
    let owner = Owner { tenant: label("acme"), principal: label("ann"), project: label("default") };
    let told = |resource| {
        let shortage = Shortage { resource, limit: 4_000, used: 4_000, requested: 500 };
        let scope = QuotaScope::Tenant;
        QuotaExceeded { owner: owner.clone(), scope, shortage, by: vec![], others: 0 }.to_string()
    };
    insta::assert_snapshot!(QuotaResource::ALL.map(told).join("\n"));
    let shortage = Shortage { resource: QuotaResource::Cpus, limit: 4_000, used: 3_500, requested: 1_000 };
    let holder = QuotaHolder {
        id: "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id"),
        name: "web".to_owned(),
        used: 3.5,
    };
    let refused =
        QuotaExceeded { owner, scope: QuotaScope::Principal, shortage, by: vec![holder], others: 2 };
    insta::assert_json_snapshot!(refused.detail());
}
