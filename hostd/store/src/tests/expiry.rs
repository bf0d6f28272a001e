use super::with_one;
use crate::{SandboxUpdate, StoreError};
use hostd_core::{Expiry, Goal, Transition, TransitionRefused};
use protocol::api::{OnTtl, SandboxStatus};

/// The decision is made on the row: a sandbox that got more time meanwhile is left alone.
#[tokio::test]
async fn more_time_wins_over_a_ttl_that_was_seen_to_end() {
    let (_dir, store, id) = with_one().await;
    store.transition_sandbox(&id, Transition::Reached, 2_000).await.unwrap();
    let ttl = |expires_ms, on_ttl| SandboxUpdate {
        expires_ms: Some(Some(expires_ms)),
        on_ttl: Some(on_ttl),
        ..SandboxUpdate::default()
    };
    for (on_ttl, goal) in [(OnTtl::Pause, Goal::Paused), (OnTtl::Destroy, Goal::Destroyed)] {
        store.update_sandbox(&id, ttl(5_000, on_ttl), 3_000).await.unwrap();
        let left = store.expire_sandbox(&id, Expiry::Reach(goal), 9_000, 4_000).await.unwrap();
        assert_eq!((left.state.goal, left.expires_ms), (Goal::Running, Some(5_000)), "{on_ttl:?}");
        // Something else is due by now.
        let other = Expiry::Reach(Goal::Stopped);
        let left = store.expire_sandbox(&id, other, 9_000, 6_000).await.unwrap();
        assert_eq!(left.state.goal, Goal::Running, "{on_ttl:?}");
    }
    let done = store.expire_sandbox(&id, Expiry::Reach(Goal::Destroyed), 9_000, 6_000).await.unwrap();
    assert_eq!((done.state.goal, done.state.status), (Goal::Destroyed, SandboxStatus::Running));
    let late = store.update_sandbox(&id, ttl(9_000, OnTtl::Pause), 7_000).await;
    assert!(matches!(late, Err(StoreError::Refused(TransitionRefused::Destroying))), "{late:?}");
}
