use super::{SECRET, empty, insert, kinds, label, new_sandbox, owner, problem, with_one};
use crate::{EventFilter, ExecRecord, SandboxFilter, SandboxUpdate, Secret, StoreError, TaskBegun};
use hostd_core::{Blueprint, Death, Environment, Goal, Renewal, TaskEnding, Transition, TransitionRefused};
use protocol::{
    ExecId, Exit, ServiceSpec, TaskPhase,
    api::{AttemptState, DeathCause, EgressRules, Phase, Problem, ProblemCode, SandboxStatus},
};
use serde_json::json;

#[tokio::test]
async fn a_sandbox_reads_as_it_was_written() {
    let (_dir, store) = empty();
    let new = new_sandbox(1, None);
    let written = insert(&store, new.clone()).await;
    let read = store.sandbox(&new.id).await.unwrap().unwrap();
    assert_eq!(read, written);
    assert_eq!((read.env, read.blueprint, read.state), (new.env, new.blueprint, new.state));
    assert_eq!((read.attempt, read.generation, read.keep_workspace), (1, 1, false));
    assert_eq!(kinds(&store).await, ["sandbox.created"]);
    let again = store.insert_sandbox(new_sandbox(1, None), protocol::api::AttemptRelation::Create).await;
    assert!(matches!(again, Err(StoreError::Exists)));
}

#[tokio::test]
async fn every_transition_is_written_with_its_event() {
    let (_dir, store, id) = with_one().await;
    let accept = |goal| Transition::Accept { goal, deadline_ms: 70_000 };
    let renewal = Renewal { keep_workspace: true };
    let error = json!({ "problem": problem() });
    let death = || Box::new(Death { cause: DeathCause::Killed, signal: Some(9), ..Death::default() });
    let post_mortem = |now_ms| json!(death().post_mortem(None, now_ms));
    let away = Problem { code: ProblemCode::DriverUnavailable, ..problem() };
    let moves = [
        (
            Transition::Extend { deadline_ms: 65_000 },
            "delayed",
            json!({ "phase": "provisioning", "deadline_ms": 65_000 }),
        ),
        (Transition::Reached, "running", json!({})),
        (accept(Goal::Paused), "wanted", json!({ "goal": "paused", "phase": "pausing" })),
        (Transition::Reached, "paused", json!({})),
        (accept(Goal::Running), "wanted", json!({ "goal": "running", "phase": "resuming" })),
        (Transition::Reached, "running", json!({})),
        (
            Transition::Doze { deadline_ms: 70_000 },
            "wanted",
            json!({ "goal": "paused", "phase": "pausing", "dozing": true }),
        ),
        (Transition::Reached, "paused", json!({ "dozing": true })),
        // An explicit pause ends dozing.
        (accept(Goal::Paused), "wanted", json!({ "goal": "paused", "phase": null })),
        (accept(Goal::Running), "wanted", json!({ "goal": "running", "phase": "resuming" })),
        (Transition::GiveUp { problem: away.clone(), found: None }, "paused", json!({ "problem": away })),
        (
            Transition::Lost { death: death() },
            "error",
            json!({ "problem": death().problem(), "post_mortem": post_mortem(2_011) }),
        ),
        (
            Transition::Renew { renewal, deadline_ms: 70_000 },
            "wanted",
            json!({ "goal": "running", "phase": "provisioning", "renewal": { "keep_workspace": true } }),
        ),
        (Transition::Renewed, "renewed", json!({})),
        (Transition::GiveUp { problem: problem(), found: None }, "error", error),
        (
            Transition::Restart { death: death(), deadline_ms: 70_000 },
            "error",
            json!({ "problem": death().problem(), "phase": "starting", "post_mortem": post_mortem(2_015) }),
        ),
        (Transition::Reached, "running", json!({})),
        (Transition::Ended { death: death() }, "ended", json!({ "post_mortem": post_mortem(2_017) })),
        (accept(Goal::Destroyed), "wanted", json!({ "goal": "destroyed", "phase": "destroying" })),
        (Transition::Reached, "destroyed", json!({})),
    ];
    for (number, (change, kind, data)) in moves.into_iter().enumerate() {
        let now_ms = 2_000 + number as u64;
        let before = store.sandbox(&id).await.unwrap().unwrap();
        let moved = store.transition_sandbox(&id, change.clone(), now_ms).await.unwrap();
        assert_eq!(store.sandbox(&id).await.unwrap().unwrap(), moved, "{change:?}");
        assert_eq!(moved.state, hostd_core::apply(&before.state, change).unwrap());
        assert_eq!((moved.generation, moved.updated_ms), (before.generation + 1, now_ms));
        let events = store.events(EventFilter::default(), 0, 100).await.unwrap();
        let newest = events.last().unwrap();
        assert_eq!((newest.kind.as_str(), &newest.data), (format!("sandbox.{kind}").as_str(), &data));
        assert_eq!((newest.time_ms, &newest.owner, newest.sandbox), (now_ms, &owner(), id));
        assert_eq!(newest.seq, *store.head().borrow());
    }
}

#[tokio::test]
async fn a_death_is_kept_on_sandbox_attempt_and_tasks_until_the_next() {
    let (_dir, store, id) = with_one().await;
    let begin = |name| store.begin_task(super::new_task(name));
    let number = |begun| match begun {
        TaskBegun::New(task) => task.number,
        other @ (TaskBegun::Same(_) | TaskBegun::Conflict | TaskBegun::Full) => panic!("{other:?}"),
    };
    let (runs, waits) = (number(begin("t1").await.unwrap()), number(begin("t2").await.unwrap()));
    store.mark_task_dispatched(runs).await.unwrap();
    store.append_task(runs, vec![super::status_line(1, TaskPhase::Agent)]).await.unwrap();
    store.transition_sandbox(&id, Transition::Reached, 2_000).await.unwrap();

    let oom = Death { cause: DeathCause::Oom, exit_code: Some(137), oom_kills: 1, ..Death::default() };
    let moved = store
        .transition_sandbox(&id, Transition::Lost { death: Box::new(oom.clone()) }, 3_000)
        .await
        .unwrap();
    let post_mortem = oom.post_mortem(Some("t1".to_owned()), 3_000);
    assert_eq!(moved.post_mortem.as_deref(), Some(&post_mortem));
    assert_eq!(store.attempts(&id, None, 9).await.unwrap()[0].post_mortem.as_deref(), Some(&post_mortem));

    // Tasks that were in the sandbox report its death; queued tasks do not.
    let done = store.conclude_task(runs, TaskEnding::Lost, 3_001).await.unwrap();
    let message = done.result.unwrap().message.unwrap();
    assert_eq!(message, format!("the sandbox ended under it: {}", oom.message(None)));
    assert_eq!(store.task_by_number(waits).await.unwrap().unwrap().death, None);

    // The post-mortem stays until the next death.
    for goal in [Goal::Running, Goal::Stopped, Goal::Running] {
        store.transition_sandbox(&id, Transition::Accept { goal, deadline_ms: 9_000 }, 4_000).await.unwrap();
        let moved = store.transition_sandbox(&id, Transition::Reached, 4_000).await.unwrap();
        assert_eq!(moved.post_mortem.as_deref(), Some(&post_mortem));
    }
    let shut = Death { cause: DeathCause::ShutDown, ..Death::default() };
    store.transition_sandbox(&id, Transition::Ended { death: Box::new(shut.clone()) }, 5_000).await.unwrap();
    let goal = Goal::Destroyed;
    store.transition_sandbox(&id, Transition::Accept { goal, deadline_ms: 9_000 }, 6_000).await.unwrap();
    let destroyed = store.transition_sandbox(&id, Transition::Reached, 6_000).await.unwrap();
    assert_eq!(destroyed.post_mortem.as_deref(), Some(&shut.post_mortem(None, 5_000)));
}

#[tokio::test]
async fn a_transition_that_is_refused_or_changes_nothing_writes_nothing() {
    let (_dir, store, id) = with_one().await;
    let before = store.sandbox(&id).await.unwrap();
    let pause = Transition::Accept { goal: Goal::Paused, deadline_ms: 1 };
    let refused = store.transition_sandbox(&id, pause, 2_000).await;
    assert!(matches!(refused, Err(StoreError::Refused(TransitionRefused::NotRunning))));
    let again = Transition::Accept { goal: Goal::Running, deadline_ms: 1 };
    assert_eq!(Some(store.transition_sandbox(&id, again, 2_000).await.unwrap()), before);
    assert_eq!(store.sandbox(&id).await.unwrap(), before);
    assert_eq!(kinds(&store).await, ["sandbox.created"]);
    let missing = store.transition_sandbox(&super::id(7), Transition::Renewed, 1).await;
    assert!(matches!(missing, Err(StoreError::NotFound)));
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_nothing() {
    let (_dir, store, id) = with_one().await;
    let same = SandboxUpdate {
        name: Some("box 1".to_owned()),
        expires_ms: Some(Some(9_000)),
        ..SandboxUpdate::default()
    };
    assert_eq!(store.update_sandbox(&id, same, 5).await.unwrap().generation, 1);
    let other =
        SandboxUpdate { name: Some("new".to_owned()), expires_ms: Some(None), ..SandboxUpdate::default() };
    let changed = store.update_sandbox(&id, other, 5).await.unwrap();
    assert_eq!((changed.name.as_str(), changed.expires_ms, changed.generation), ("new", None, 2));
    let env = SandboxUpdate { env: Some(Secret(Environment::default())), ..SandboxUpdate::default() };
    assert_eq!(store.update_sandbox(&id, env, 6).await.unwrap().env, Secret(Environment::default()));
    let events = store.events(EventFilter::default(), 1, 10).await.unwrap();
    let data: Vec<_> = events.into_iter().map(|event| event.data).collect();
    assert_eq!(data, [json!({ "fields": ["name", "expires_ms"] }), json!({ "fields": ["env"] })]);
}

#[tokio::test]
async fn changes_of_two_parts_of_a_blueprint_leave_each_other_alone() {
    let (_dir, store, id) = with_one().await;
    let before = store.sandbox(&id).await.unwrap().unwrap();
    let rules = EgressRules { deny: vec!["one.test".to_owned()], ..EgressRules::default() };
    let service: ServiceSpec = serde_json::from_value(json!({ "name": "web", "command": "run" })).unwrap();
    // Two updates that do not know of each other.
    let deny = SandboxUpdate { egress: Some(rules.clone()), ..SandboxUpdate::default() };
    let serve = SandboxUpdate { services: Some(vec![service.clone()]), ..SandboxUpdate::default() };
    let (_, changed) = tokio::join!(store.update_sandbox(&id, deny, 5), store.update_sandbox(&id, serve, 6));
    let expected =
        Blueprint { egress: rules.clone(), services: vec![service], ..(*before.blueprint).clone() };
    assert_eq!(*changed.unwrap().blueprint, expected);
    let same = SandboxUpdate { egress: Some(rules), ..SandboxUpdate::default() };
    assert_eq!(store.update_sandbox(&id, same, 7).await.unwrap().generation, 3, "no change");
    let events = store.events(EventFilter::default(), 1, 10).await.unwrap();
    let data: Vec<_> = events.into_iter().map(|event| event.data).collect();
    assert_eq!(data, [json!({ "fields": ["egress"] }), json!({ "fields": ["services"] })]);
}

#[tokio::test]
async fn nothing_of_a_destroyed_sandbox_stays_open() {
    let (_dir, store, id) = with_one().await;
    let exec = ExecRecord {
        sandbox: id,
        id: ExecId::parse("e1").unwrap(),
        argv: vec!["true".to_owned()],
        cwd: "/".to_owned(),
        tty: false,
        request_hash: [1; 32],
        started_ms: 1,
        ended_ms: None,
        exit: None,
        hints: vec![],
    };
    store.begin_exec(exec.clone()).await.unwrap();
    store
        .transition_sandbox(&id, Transition::Accept { goal: Goal::Destroyed, deadline_ms: 9 }, 2)
        .await
        .unwrap();
    let record = store.transition_sandbox(&id, Transition::Reached, 3).await.unwrap();
    assert_eq!(store.exec(&id, &exec.id).await.unwrap().unwrap().exit, Some(Exit::Lost));
    assert_eq!(store.attempts(&id, None, 9).await.unwrap()[0].state, AttemptState::Failed);
    assert_eq!(kinds(&store).await.last().unwrap(), "sandbox.destroyed");
    assert_eq!(record.env.0.all["PASSWORD"], "");
    assert_eq!(record.env.0.services["web"]["PASSWORD"], "");
    let late = store.update_sandbox(&id, SandboxUpdate::default(), 4).await;
    assert!(matches!(late, Err(StoreError::Refused(TransitionRefused::Destroyed))));
}

#[tokio::test]
async fn an_environment_is_in_its_column_only() {
    let (dir, store, id) = with_one().await;
    store
        .begin_attempt(&id, protocol::api::AttemptRelation::Start, Blueprint::sample().into(), 2)
        .await
        .unwrap();
    store.transition_sandbox(&id, Transition::Reached, 3).await.unwrap();
    let record = store.sandbox(&id).await.unwrap().unwrap();
    assert!(!format!("{record:?}").contains(SECRET));
    for event in store.events(EventFilter::default(), 0, 100).await.unwrap() {
        assert!(!format!("{event:?}").contains(SECRET));
    }
    store.close().await;
    // The file holds the secret twice: for all processes and for the service.
    let bytes = std::fs::read(dir.path().join("slipway.db")).unwrap();
    let times = bytes.windows(SECRET.len()).filter(|part| *part == SECRET.as_bytes()).count();
    assert_eq!(times, 2);
}

#[tokio::test]
async fn lists_are_filtered_and_paged_newest_first() {
    let (_dir, store) = empty();
    for number in 1..=5 {
        insert(&store, new_sandbox(number, None)).await;
    }
    let mut other = new_sandbox(6, None);
    other.owner.tenant = label("other");
    insert(&store, other).await;
    store.transition_sandbox(&super::id(2), Transition::Reached, 2).await.unwrap();
    let destroy = Transition::Accept { goal: Goal::Destroyed, deadline_ms: 9 };
    store.transition_sandbox(&super::id(3), destroy, 2).await.unwrap();
    store.transition_sandbox(&super::id(3), Transition::Reached, 2).await.unwrap();

    let acme = SandboxFilter { tenant: Some(label("acme")), ..SandboxFilter::default() };
    let status = |status| SandboxFilter { status: Some(status), ..SandboxFilter::default() };
    let table = [
        (SandboxFilter::default(), None, 10, vec![6, 5, 4, 2, 1]),
        (SandboxFilter { include_destroyed: true, ..acme.clone() }, None, 10, vec![5, 4, 3, 2, 1]),
        (acme.clone(), None, 2, vec![5, 4]),
        (acme, Some(4), 2, vec![2, 1]),
        (status(SandboxStatus::Running), None, 10, vec![2]),
        (status(SandboxStatus::Destroyed), None, 10, vec![3]),
        (SandboxFilter { principal: Some(label("bob")), ..SandboxFilter::default() }, None, 10, vec![]),
    ];
    for (filter, after, limit, expected) in table {
        let found = store.sandboxes(filter.clone(), after.map(super::id), limit).await.unwrap();
        let ids: Vec<_> = found.into_iter().map(|record| record.id).collect();
        assert_eq!(ids, expected.into_iter().map(super::id).collect::<Vec<_>>(), "{filter:?}");
    }
    assert_eq!(store.live_sandboxes().await.unwrap().len(), 5);
    let counts = store.count_by_status().await.unwrap();
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [4, 1, 1]);
}

#[tokio::test]
async fn an_adopted_sandbox_is_as_it_was_found() {
    let (_dir, store) = empty();
    let mut new = new_sandbox(1, None);
    new.state = hostd_core::State::at(Goal::Running);
    let record = store.adopt_sandbox(new, vec![]).await.unwrap();
    assert!(record.state.is_up());
    assert_eq!(store.attempts(&record.id, None, 9).await.unwrap()[0].state, AttemptState::Succeeded);
    assert_eq!(kinds(&store).await, ["sandbox.adopted"]);
    let wanted = Transition::Accept { goal: Goal::Stopped, deadline_ms: 1 };
    let operation = store.transition_sandbox(&record.id, wanted, 2).await.unwrap().state.operation;
    assert_eq!(operation.map(|operation| operation.phase), Some(Phase::Stopping));
}
