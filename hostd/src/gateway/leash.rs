//! Holds a connection to the task whose call is on it: when the task is over, the connection is. Nobody else can
//! end one whose other side does not read, since then nobody asks for more of the answer.

use axum::body::Body;
use hyper::Response;
use std::future::pending;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Of one connection. Cheap to clone.
#[derive(Clone)]
pub struct Leash(watch::Sender<Option<CancellationToken>>);

/// Goes with an answer, up to whoever has the connection.
#[derive(Clone)]
pub(super) struct Over(pub CancellationToken);

impl Default for Leash {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Leash {
    /// This answer is on its way; the one before it has ended.
    pub fn tie(&self, answer: &mut Response<Body>) {
        let over = answer.extensions_mut().remove::<Over>();
        self.0.send_replace(over.map(|over| over.0));
    }

    /// The one before has ended.
    pub fn untie(&self) {
        self.0.send_if_modified(|tied| tied.take().is_some());
    }

    /// Waits until the task of what is on the connection is over.
    pub async fn pulled(&self) {
        let mut tied = self.0.subscribe();
        loop {
            let over = tied.borrow_and_update().clone();
            let over = async {
                match over {
                    Some(over) => over.cancelled().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = over => return,
                // Only says that there is another one. It fails when nobody can tie any more, and we can.
                _ = tied.changed() => {}
            }
        }
    }
}
