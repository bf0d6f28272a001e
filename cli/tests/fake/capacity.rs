//! The capacity of the fake hostd: a host with two sandboxes, a page for each; two leftovers, one of which cannot be
//! removed; and limits, of which less than 64 MB of memory is refused.

use super::{
    API, WEB,
    serve::{FakeResponse, document, error, sandbox},
};
use serde_json::{Value, json};

/// Answers a request about capacity; `None` where it is about something else.
pub fn answer(method: &str, path: &[&str], query: &str, body: &[u8]) -> Option<FakeResponse> {
    match (method, path) {
        ("GET", ["v1", "host"]) => Some(document(200, &host())),
        ("GET", ["v1", "host", "sandboxes"]) => Some(document(200, &costs(query))),
        ("POST", ["v1", "host", "reap"]) => Some(document(200, &report(query.contains("apply=true")))),
        ("PATCH", ["v1", "sandboxes", WEB, "limits"]) => Some(changed(body)),
        _ => None,
    }
}

fn host() -> Value {
    json!({ "version": "0.1.0", "instance": "fake", "default_driver": "oci", "default_image": "host", "drivers": [],
        "cpus": 2, "memory_total_bytes": 4_u64 << 30, "memory_available_bytes": 1_u64 << 30,
        "memory_reserve_bytes": 200 << 20, "memory_level": "ok", "load": [0.5, 0.25, 0.0],
        "disk_total_bytes": 10_u64 << 30, "disk_free_bytes": 5_u64 << 30, "disk_floor_bytes": 1 << 30,
        "disk_level": "ok", "hostd_rss_bytes": 0, "sandboxes": { "running": 1, "stopped": 1 },
        "sandboxes_by_driver": { "oci": 2 }, "warnings": ["docker is away"] })
}

fn costs(query: &str) -> Value {
    let cost = |id: &str, name: &str, status: &str| {
        json!({ "id": id, "name": name, "tenant": "t", "principal": "p", "project": "default", "status": status,
            "driver": "oci", "memory_limit_bytes": 512 << 20 })
    };
    if query.contains("after=1") {
        return json!({ "items": [cost(API, "api", "stopped")] });
    }
    let mut web = cost(WEB, "web", "running");
    web["memory_bytes"] = json!(100 << 20);
    web["memory_peak_bytes"] = json!(150 << 20);
    web["cpu_usage_us"] = json!(1_500_000);
    web["disk_bytes"] = json!(3 << 20);
    json!({ "items": [web], "next": "1" })
}

fn report(applied: bool) -> Value {
    let item = |kind: &str, error: Option<&str>| {
        json!({ "driver": "oci", "kind": kind, "name": API, "bytes": 1 << 20, "reason": "its sandbox is destroyed",
            "error": error })
    };
    let busy = applied.then_some("it is busy");
    json!({ "applied": applied, "items": [item("workspace", None), item("sandbox_directory", busy)],
        "bytes": if applied { 1 << 20 } else { 2 << 20 },
        "unasked": [{ "driver": "docker", "why": "it is away" }] })
}

fn changed(body: &[u8]) -> FakeResponse {
    let change: Value = serde_json::from_slice(body).expect("JSON");
    if change["memory_mb"].as_u64().is_some_and(|mb| mb < 64) {
        return document(
            409,
            &error("conflict", "the sandbox uses 100 MB of memory, more than the limit of 32 MB"),
        );
    }
    let mut view = sandbox(WEB, "web");
    for (name, value) in change.as_object().expect("an object") {
        view["limits"][name] = value.clone();
    }
    document(200, &view)
}
