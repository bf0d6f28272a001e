//! A long request is parsed on a blocking thread, and keeps its permits until that is done.

use crate::{
    ActiveBudgets,
    gateway::{
        call_limits::CallLimits,
        dialect::ModelApi,
        limits::{BODIES_MAX_BYTES, PARSE_INLINE_MAX_BYTES},
        route::{Endpoint, Operation},
        serve::parse,
    },
};
use bytes::Bytes;
use futures_util::FutureExt;
use std::sync::mpsc;
use tokio::task::spawn_blocking;

#[test]
fn a_body_that_is_still_parsed_stays_counted_when_the_agent_disconnects() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build();
    runtime.expect("a runtime").block_on(async {
        let (limits, sandbox) = (CallLimits::default(), super::fixture::sandbox());
        let permit = limits.acquire(&sandbox).expect("free");
        let mut body_permit = permit.body_permit();
        body_permit.grow(BODIES_MAX_BYTES).expect("room");
        // The only blocking thread waits, so nothing is parsed before the test lets it go on.
        let (go, gone) = mpsc::sync_channel::<()>(0);
        let busy = spawn_blocking(move || gone.recv());
        let body = Bytes::from(vec![b' '; PARSE_INLINE_MAX_BYTES + 1]);
        let endpoint = Endpoint::new(ModelApi::Messages, Operation::Generate);
        let reading = parse(&endpoint, &body, ActiveBudgets::default(), (permit, body_permit)).now_or_never();
        assert!(reading.is_none(), "the agent disconnects before it is parsed");
        let more = || limits.acquire(&sandbox).expect("free").body_permit().grow(1);
        assert!(more().is_err(), "the body is still there");
        drop(go);
        let _ = busy.await;
        // Blocking tasks run in order.
        spawn_blocking(|| ()).await.expect("it was parsed");
        more().expect("given back");
    });
}
