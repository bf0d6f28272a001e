use super::*;
use hostd_store::fixture::with_one;

#[tokio::test]
async fn a_warm_agent_whose_task_was_refused_is_kept_for_the_next() {
    let (_dir, store, id) = with_one().await;
    let sandbox = store.sandbox(&id).await.expect("read").expect("there");
    let create = TaskCreate { prompt: "do it".to_owned(), ..TaskCreate::default() };
    let warm_agents = WarmAgents::default();
    let warm_agent = |name: &str| WarmAgent {
        name: name.to_owned(),
        spec: warm_spec("a", &create),
        attempt: sandbox.attempt,
        until_ms: 100,
        model: None,
    };
    let take = |now_ms| warm_agents.take(&sandbox, "a", &create, now_ms);
    warm_agents.put(id, warm_agent("first"), 1);
    let claim = take(2).expect("it is there");
    assert!(take(2).is_none(), "for one at a time");
    drop(claim);
    let claim = take(3).expect("the task was refused");
    assert_eq!(claim.name().as_deref(), Some("first"));
    // A newer one is not replaced.
    warm_agents.put(id, warm_agent("second"), 4);
    drop(claim);
    let claim = take(5).expect("it is there");
    assert_eq!(claim.name().as_deref(), Some("second"));
    claim.consume();
    assert!(take(6).is_none());
}
