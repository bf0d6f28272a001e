//! Publishes the newest record of a sandbox. The actor publishes transitions; a caller that changed another part of
//! the row publishes what the store made of it, and that is in force at once. An older record never replaces a newer
//! one.

use hostd_store::SandboxRecord;
use std::sync::Arc;
use tokio::sync::watch;

pub(super) struct RecordPublisher {
    sender: watch::Sender<Arc<SandboxRecord>>,
}

impl RecordPublisher {
    pub fn new(record: Arc<SandboxRecord>) -> Self {
        Self { sender: watch::Sender::new(record) }
    }

    /// Publishes a record, unless a newer one is there: two may leave the store in one order and arrive here in the
    /// other.
    pub fn put(&self, mut record: Arc<SandboxRecord>) {
        self.sender.send_if_modified(|now| {
            let newer = record.generation >= now.generation;
            if newer {
                // The store does not have this field.
                if now.other_pid_namespace {
                    Arc::make_mut(&mut record).other_pid_namespace = true;
                }
                *now = record;
            }
            newer
        });
    }

    /// Publishes the progress of a launch, which goes with the record.
    pub fn put_progress(&self, progress: Option<Arc<str>>) {
        self.sender.send_if_modified(|record| {
            let other = record.progress != progress;
            if other {
                Arc::make_mut(record).progress = progress;
            }
            other
        });
    }

    /// Publishes whether the sandbox lives in another PID namespace, which goes with the record too.
    pub fn put_other_pid_namespace(&self, so: bool) {
        self.sender.send_if_modified(|record| {
            let other = record.other_pid_namespace != so;
            if other {
                Arc::make_mut(record).other_pid_namespace = so;
            }
            other
        });
    }

    pub fn get(&self) -> Arc<SandboxRecord> {
        self.sender.borrow().clone()
    }

    pub fn subscribe(&self) -> watch::Receiver<Arc<SandboxRecord>> {
        self.sender.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::tests::fixture;
    use hostd_drivers::fake::FakeDriver;
    use hostd_store::{SandboxUpdate, fixture::with_one};
    use protocol::api::{EgressRules, SandboxSpec};

    #[tokio::test]
    async fn an_older_record_does_not_replace_a_newer_one() {
        let (_dir, store, id) = with_one().await;
        let first = store.sandbox(&id).await.expect("read").expect("there");
        let renamed = SandboxUpdate { name: Some("new".to_owned()), ..SandboxUpdate::default() };
        let second = store.update_sandbox(&id, renamed, 5).await.expect("written");
        let publisher = RecordPublisher::new(Arc::new(first.clone()));
        let mut seen = publisher.subscribe();
        for (record, name) in [(&second, "new"), (&first, "new"), (&second, "new")] {
            publisher.put(Arc::new(record.clone()));
            assert_eq!(seen.borrow_and_update().name, name);
        }
    }

    /// The actor does nothing in between: all of this happens on one thread that never waits.
    #[tokio::test]
    async fn a_change_is_in_force_when_it_is_published_whatever_the_actor_does() {
        let dir = tempfile::tempdir().expect("a directory");
        let fleet =
            fixture::open(&Arc::new(FakeDriver::default()), dir.path(), fixture::timing(60_000)).await;
        let new = fixture::new_sandbox(&fleet, 1, &SandboxSpec::default());
        let id = fleet.create(new).await.expect("created").id;
        let deny =
            |number: u32| EgressRules { deny: vec![format!("{number}.test")], ..EgressRules::default() };
        // More than its inbox has room for.
        for number in 0..200 {
            let change = SandboxUpdate { egress: Some(deny(number)), ..SandboxUpdate::default() };
            let changed = fleet.store().update_sandbox(&id, change, 5).await.expect("written");
            fleet.publish_change(changed);
            let record = fleet.record(&id).await.expect("it is there");
            assert_eq!(record.blueprint.egress, deny(number));
        }
        fleet.close().await;
    }
}
