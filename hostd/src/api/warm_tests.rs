use super::*;
use crate::store::tests::with_one;

#[tokio::test]
async fn one_that_no_task_came_of_is_there_for_the_next() {
    let (_dir, store, id) = with_one().await;
    let sandbox = store.sandbox(&id).await.expect("read").expect("there");
    let create = TaskCreate { prompt: "do it".to_owned(), ..TaskCreate::default() };
    let warms = Warms::default();
    let prepared = |name: &str| Prepared {
        name: name.to_owned(),
        asked: asked_by("a", &create),
        attempt: sandbox.attempt,
        until_ms: 100,
        connected: None,
    };
    let take = |now_ms| warms.take(&sandbox, "a", &create, now_ms);
    warms.put(id, prepared("first"), 1);
    let taken = take(2).expect("it is there");
    assert!(take(2).is_none(), "for one at a time");
    drop(taken);
    let taken = take(3).expect("the task was refused");
    assert_eq!(taken.name().as_deref(), Some("first"));
    // A newer one stays.
    warms.put(id, prepared("second"), 4);
    drop(taken);
    let taken = take(5).expect("it is there");
    assert_eq!(taken.name().as_deref(), Some("second"));
    taken.given();
    assert!(take(6).is_none());
}
