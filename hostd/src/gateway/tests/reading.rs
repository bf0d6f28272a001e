//! A long request is read on a thread of its own, and holds what it holds until that is done.

use crate::{
    gateway::{
        limits::{BODIES_MAX_BYTES, READ_AT_ONCE_MAX_BYTES},
        places::Places,
        route::Inference,
        serve::read,
    },
    models::ActiveBudgets,
};
use bytes::Bytes;
use futures_util::FutureExt;
use std::sync::mpsc;
use tokio::task::spawn_blocking;

#[test]
fn who_leaves_takes_nothing_back_that_is_still_in_use() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build();
    runtime.expect("a runtime").block_on(async {
        let (places, sandbox) = (Places::default(), super::front::sandbox());
        let place = places.take(&sandbox).expect("free");
        let mut room = place.room();
        room.grow(BODIES_MAX_BYTES).expect("room");
        // The one thread there is waits: nothing is read before it is told to go on.
        let (go, gone) = mpsc::sync_channel::<()>(0);
        let busy = spawn_blocking(move || gone.recv());
        let body = Bytes::from(vec![b' '; READ_AT_ONCE_MAX_BYTES + 1]);
        let reading =
            read(&Inference::Messages, &body, ActiveBudgets::default(), (place, room)).now_or_never();
        assert!(reading.is_none(), "the agent leaves before it is read");
        let more = || places.take(&sandbox).expect("free").room().grow(1);
        assert!(more().is_err(), "the body is still there");
        drop(go);
        let _ = busy.await;
        // Threads take what there is in its order.
        spawn_blocking(|| ()).await.expect("it was read");
        more().expect("given back");
    });
}
