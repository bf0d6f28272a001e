//! Closes an agent's connection when the task whose call is on it ends. The body of a response alone cannot
//! do that: hyper does not poll it while the agent reads nothing.

use axum::body::Body;
use hyper::Response;
use std::future::pending;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The task whose call is on one connection, if any. Cheap to clone.
#[derive(Clone)]
pub struct CancelWithTask(watch::Sender<Option<CancellationToken>>);

/// The end of a task, as an extension of the response to its call.
#[derive(Clone)]
pub(super) struct TaskEnded(pub CancellationToken);

impl Default for CancelWithTask {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl CancelWithTask {
    /// Watches the task of this response, and no longer that of the response before it.
    pub fn attach(&self, response: &mut Response<Body>) {
        let task_ended = response.extensions_mut().remove::<TaskEnded>();
        self.0.send_replace(task_ended.map(|task_ended| task_ended.0));
    }

    /// Watches no task: the response is over.
    pub fn detach(&self) {
        self.0.send_if_modified(|attached| attached.take().is_some());
    }

    /// Waits until the task of the current response has ended.
    pub async fn cancelled(&self) {
        let mut attached = self.0.subscribe();
        loop {
            let task_ended = attached.borrow_and_update().clone();
            let task_ended = async {
                match task_ended {
                    Some(task_ended) => task_ended.cancelled().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = task_ended => return,
                // Only reports another response. Cannot fail: `self` is a sender.
                _ = attached.changed() => {}
            }
        }
    }
}
