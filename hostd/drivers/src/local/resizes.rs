//! Changes of limits, one after the other for each sandbox. A change runs to its end when its caller gives up, as the
//! writes to control groups do: a later one waits, so that its limits are in force and in the badge after all.

use super::files::failed;
use crate::DriverError;
use hostd_net::keyed_locks::KeyedLocks;
use protocol::api::SandboxId;
use std::io;

#[derive(Default)]
pub struct Resizes {
    locks: KeyedLocks<SandboxId>,
}

impl Resizes {
    /// Runs a change after those that began before it. A caller that gives up while it waits changes nothing.
    pub async fn run<F>(&self, sandbox: SandboxId, change: F) -> Result<(), DriverError>
    where
        F: Future<Output = Result<(), DriverError>> + Send + 'static,
    {
        let lock = self.locks.lock(sandbox).await;
        let task = tokio::spawn(async move {
            let _lock = lock;
            change.await
        });
        task.await.unwrap_or_else(|error| Err(failed("change the limits")(io::Error::other(error))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::sync::{Arc, Mutex};
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn a_change_that_its_caller_gave_up_is_over_before_the_next_begins() {
        let id: SandboxId = "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id");
        let (resizes, applied) = (Resizes::default(), Arc::new(Mutex::new(Vec::new())));
        let change = |name: &'static str, until: oneshot::Receiver<()>| {
            let applied = applied.clone();
            async move {
                let _ = until.await;
                applied.lock().expect("no panic while held").push(name);
                Ok(())
            }
        };
        let (finish_first, first_may_finish) = oneshot::channel();
        let mut first = Box::pin(resizes.run(id, change("first", first_may_finish)));
        assert!(first.as_mut().now_or_never().is_none());
        drop(first);
        let (finish, may_finish) = oneshot::channel();
        let mut second = Box::pin(resizes.run(id, change("second", may_finish)));
        finish.send(()).expect("it waits");
        assert!(second.as_mut().now_or_never().is_none());
        // One that gives up while it waits is not applied.
        let (_, never) = oneshot::channel();
        assert!(resizes.run(id, change("third", never)).now_or_never().is_none());
        finish_first.send(()).expect("it goes on");
        second.await.expect("applied");
        assert_eq!(*applied.lock().expect("no panic while held"), ["first", "second"]);
    }
}
