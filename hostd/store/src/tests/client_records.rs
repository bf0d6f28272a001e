use super::{empty, insert, new_sandbox, with_one};
use crate::{ExpiredRows, limits};
use hostd_core::{Goal, Transition};

const E2B: &str = "e2b";

#[tokio::test]
async fn each_protocol_has_one_document_for_a_sandbox() {
    let (_dir, store) = empty();
    let [one, two] = [1, 2].map(|number| new_sandbox(number, None));
    for new in [&one, &two] {
        insert(&store, new.clone()).await;
    }
    assert_eq!(store.client_record(&one.id, E2B).await.unwrap(), None);
    let set = |text: &str| {
        let text = text.to_owned();
        Box::new(move |_: Option<String>| Some(text)) as crate::ClientRecordChange
    };
    for (id, protocol, text) in [(one.id, E2B, "a"), (one.id, "other", "b"), (two.id, E2B, "c")] {
        assert_eq!(
            store.change_client_record(&id, protocol, set(text)).await.unwrap().as_deref(),
            Some(text)
        );
    }
    let appended = Box::new(|before: Option<String>| before.map(|text| text + "!"));
    assert_eq!(store.change_client_record(&one.id, E2B, appended).await.unwrap().as_deref(), Some("a!"));
    let kept = Box::new(|_: Option<String>| None);
    assert_eq!(store.change_client_record(&one.id, E2B, kept).await.unwrap().as_deref(), Some("a!"));
    let unknown = new_sandbox(3, None).id;
    assert!(store.change_client_record(&unknown, E2B, set("x")).await.is_err());
    let mut all = store.client_records(vec![two.id, one.id, unknown], E2B).await.unwrap();
    all.sort();
    assert_eq!(all, [(one.id, "a!".to_owned()), (two.id, "c".to_owned())]);
}

#[tokio::test]
async fn a_document_is_kept_for_a_while_after_its_sandbox() {
    let (_dir, store, id) = with_one().await;
    let document = Box::new(|_: Option<String>| Some("a".to_owned()));
    store.change_client_record(&id, E2B, document).await.unwrap();
    let now_ms = 2 * limits::CLIENT_RECORDS_OF_DESTROYED_RETENTION_MS;
    assert_eq!(
        store.delete_expired(now_ms, Some(limits::AUDIT_RETENTION_DEFAULT_MS)).await.unwrap(),
        ExpiredRows::default()
    );
    let accept = Transition::Accept { goal: Goal::Destroyed, deadline_ms: 9 };
    for change in [accept, Transition::Reached] {
        store.transition_sandbox(&id, change, 3).await.unwrap();
    }
    let some = ExpiredRows { client_records: 1, ..ExpiredRows::default() };
    assert_eq!(store.delete_expired(now_ms, Some(limits::AUDIT_RETENTION_DEFAULT_MS)).await.unwrap(), some);
    assert_eq!(store.client_record(&id, E2B).await.unwrap(), None);
}
