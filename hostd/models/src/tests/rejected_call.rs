//! Rejected calls show in the result of the task.

use super::{ModelsFixture, end, params, used};
use crate::RejectedCall;
use protocol::{FailureReason, TaskStatus};

#[tokio::test]
async fn a_rejected_call_is_a_failed_call() {
    // Whether the rejection counts; whether a later call succeeds; the status of the task.
    let table = [
        (true, false, TaskStatus::Failed),
        (true, true, TaskStatus::Succeeded),
        (false, false, TaskStatus::Succeeded),
    ];
    for (counts, goes_on, expected) in table {
        let fixture = ModelsFixture::new().await;
        let (task, key) = fixture.task("t1", None).await;
        let (open, _) = fixture.open(&task);
        let grant = fixture.models.authenticate(&super::id(1), &key).expect("good");
        let message = "there is no model".to_owned();
        grant.record_rejected(RejectedCall { model: "x".to_owned(), status: 404, message, counts }).await;
        assert!(open.verdict().is_none(), "the agent may do better");
        if goes_on {
            fixture
                .begin(&key, params(1, None, false))
                .expect("allowed")
                .ended(end(used(1, 1), Ok(())))
                .await;
        }
        open.settle().await;
        let done = fixture.finish(&task).await;
        assert_eq!(done.status, expected, "{counts} {goes_on}");
        let result = done.result.expect("a result");
        let usage = result.usage.expect("calls");
        assert_eq!(usage.calls, 1 + u64::from(goes_on));
        assert_eq!((usage.failed_calls, usage.input_tokens), (u64::from(counts), u64::from(goes_on)));
        if expected == TaskStatus::Failed {
            assert_eq!(done.failure_reason, Some(FailureReason::ModelFailed));
            let message = "a model call was refused: there is no model";
            assert_eq!(result.message.as_deref(), Some(message));
        }
    }
}
