//! Tests of `slipway host` and `slipway limits`.

use super::{
    fake::{API, FakeHostd, WEB},
    run,
};
use serde_json::Value;

#[tokio::test(flavor = "multi_thread")]
async fn the_host_is_shown_with_every_page_of_what_sandboxes_cost() {
    let fake = FakeHostd::start();
    let ended = run(&fake.data_dir(), "host").await;
    insta::assert_snapshot!(ended.stdout, @r"
    hostd      0.1.0, instance fake
    driver     oci
    load       0.50 0.25 0.00 (1, 5 and 15 minutes), 2 CPUs
    memory     ok; 3.0 GiB used of 4.0 GiB (total), 1.0 GiB available, 200.0 MiB reserve; pressure unknown
    disk       ok; 5.0 GiB free of 10.0 GiB, 1.0 GiB floor
    sandboxes  1 running, 1 stopped; by driver: 2 oci
    warning    docker is away

    ID                          NAME  OWNER  STATUS   DRIVER  MEMORY     PEAK       LIMIT      CPU TIME  DISK
    01jb9xyzabcdefghjkmnpqrstv  web   t/p    running  oci     100.0 MiB  150.0 MiB  512.0 MiB  1.5s      3.0 MiB
    01kb9xyzabcdefghjkmnpqrstv  api   t/p    stopped  oci     -          -          512.0 MiB  -         -
    ");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let ended = run(&fake.data_dir(), "--json host").await;
    let document: Value = serde_json::from_str(&ended.stdout).expect("one document");
    assert_eq!(document["host"]["memory_reserve_bytes"], 200 << 20);
    let ids: Vec<&Value> =
        document["sandboxes"].as_array().expect("a list").iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, [WEB, API]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reap_is_dry_unless_applied_and_fails_where_something_stays() {
    let fake = FakeHostd::start();
    let dry = run(&fake.data_dir(), "host reap").await;
    insta::assert_snapshot!(dry.stdout, @r"
    DRIVER  KIND               NAME                        SIZE     REASON
    oci     workspace          01kb9xyzabcdefghjkmnpqrstv  1.0 MiB  its sandbox is destroyed
    oci     sandbox directory  01kb9xyzabcdefghjkmnpqrstv  1.0 MiB  its sandbox is destroyed
    2 would be removed, 2.0 MiB; `slipway host reap --apply` removes them
    leftovers of docker are unknown: it is away
    ");
    assert_eq!((dry.code, dry.stderr.as_str()), (Some(0), ""));
    let applied = run(&fake.data_dir(), "host reap --apply").await;
    insta::assert_snapshot!(applied.stdout, @r"
    DRIVER  KIND               NAME                        SIZE     REASON
    oci     workspace          01kb9xyzabcdefghjkmnpqrstv  1.0 MiB  its sandbox is destroyed
    oci     sandbox directory  01kb9xyzabcdefghjkmnpqrstv  1.0 MiB  not removed: it is busy
    1 removed, 1.0 MiB
    1 could not be removed; hostd's log says more, and a repetition is harmless
    leftovers of docker are unknown: it is away
    ");
    assert_eq!(applied.code, Some(1));
    let ended = run(&fake.data_dir(), "--json host reap --apply").await;
    let report: Value = serde_json::from_str(&ended.stdout).expect("one document");
    assert_eq!((&report["applied"], ended.code), (&Value::Bool(true), Some(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_shown_changed_and_refused() {
    let fake = FakeHostd::start();
    let shown = run(&fake.data_dir(), "limits web").await;
    insta::assert_snapshot!(shown.stdout, @r"
    limits of web (running), in force
      memory     512.0 MiB
      cpus       1
      processes  256
    ");
    let changed = run(&fake.data_dir(), "limits web --memory 2g --cpus 0.5").await;
    insta::assert_snapshot!(changed.stdout, @r"
    limits of web (running), in force
      memory     2.0 GiB
      cpus       0.5
      processes  256
    ");
    assert_eq!((changed.code, changed.stderr.as_str()), (Some(0), ""));
    let json = run(&fake.data_dir(), "--json limits web --pids 99").await;
    let view: Value = serde_json::from_str(&json.stdout).expect("one document");
    assert_eq!(
        (&view["limits"]["pids"], &view["limits"]["memory_mb"]),
        (&Value::from(99), &Value::from(512))
    );
    let refused = run(&fake.data_dir(), "limits web --memory 32m").await;
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
    assert!(refused.stderr.contains("the sandbox uses 100 MB"), "{}", refused.stderr);
}
