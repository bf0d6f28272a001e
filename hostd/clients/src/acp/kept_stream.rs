//! Messages of a connection by HTTP, numbered, and kept until its stream has sent them and a while longer: a stream that
//! broke begins again after the last number that its client saw.

use super::{limits, outbox::Gone};
use serde_json::Value;
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::Notify;

/// Bytes that all streams keep together.
pub type KeptBytes = Arc<AtomicUsize>;

pub struct KeptStream {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    messages: VecDeque<(u64, Arc<str>)>,
    bytes: usize,
    /// Of all streams, with these.
    all_bytes: KeptBytes,
    /// Messages have larger numbers: those of the time before a restart have smaller ones.
    base: u64,
    /// Number of the last message.
    last: u64,
    /// Number of the last message that a stream took.
    sent: u64,
    /// Counts streams: a new one ends the one before.
    stream: u64,
    closed: bool,
}

/// The next step of a stream.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Message(u64, Arc<str>),
    Wait,
    End,
}

impl KeptStream {
    /// `base` grows with time.
    pub fn new(base: u64, all_bytes: KeptBytes) -> Self {
        let mut state = State::default();
        (state.base, state.last, state.sent, state.all_bytes) = (base, base, base, all_bytes);
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// Keeps a message. Waits while there is no room for messages that were not sent.
    pub async fn push(&self, message: &Value) -> Result<(), Gone> {
        let text: Arc<str> = message.to_string().into();
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state();
                if state.closed {
                    return Err(Gone);
                }
                if state.make_room() {
                    state.last += 1;
                    state.count(text.len());
                    let number = state.last;
                    state.messages.push_back((number, text));
                    drop(state);
                    self.changed.notify_waiters();
                    return Ok(());
                }
            }
            changed.await;
        }
    }

    /// Begins a stream after this message, or after what was sent; the stream before it ends. `None` where messages
    /// after it are not kept any more.
    pub fn open(&self, after: Option<u64>) -> Option<(u64, u64)> {
        let mut state = self.state();
        let after = after.unwrap_or(state.sent).clamp(state.base, state.last);
        let oldest = state.messages.front().map_or(state.last + 1, |(number, _)| *number);
        if after + 1 < oldest {
            return None;
        }
        state.stream += 1;
        let stream = state.stream;
        drop(state);
        self.changed.notify_waiters();
        Some((stream, after))
    }

    /// Returns the next message of a stream; `None` when another one took over. Safe to cancel.
    pub async fn next(&self, stream: u64, after: u64) -> Option<(u64, Arc<str>)> {
        loop {
            let changed = self.changed.notified();
            let next = self.state().next(stream, after);
            match next {
                Next::Message(number, text) => {
                    self.changed.notify_waiters();
                    return Some((number, text));
                }
                Next::End => return None,
                Next::Wait => changed.await,
            }
        }
    }

    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.all_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl State {
    /// Drops messages that were sent, where there are too many; whether there is room for another. A stream that keeps
    /// none has room, whatever others keep.
    fn make_room(&mut self) -> bool {
        let full = |state: &Self| {
            let all_bytes = state.all_bytes.load(Ordering::Relaxed);
            state.messages.len() >= limits::HTTP_KEPT_MAX
                || state.bytes >= limits::HTTP_KEPT_MAX_BYTES
                || (state.bytes > 0 && all_bytes >= limits::HTTP_KEPT_OF_ALL_MAX_BYTES)
        };
        while full(self) && self.messages.front().is_some_and(|(number, _)| *number <= self.sent) {
            let dropped = self.messages.pop_front().map_or(0, |(_, text)| text.len());
            self.bytes -= dropped;
            self.all_bytes.fetch_sub(dropped, Ordering::Relaxed);
        }
        !full(self)
    }

    fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.all_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn next(&mut self, stream: u64, after: u64) -> Next {
        if self.closed || self.stream != stream {
            return Next::End;
        }
        let Some((number, text)) = self.messages.iter().find(|(number, _)| *number > after) else {
            return Next::Wait;
        };
        self.sent = self.sent.max(*number);
        Next::Message(*number, text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[tokio::test]
    async fn a_stream_that_broke_begins_again_after_what_was_seen() {
        let kept = KeptStream::new(0, KeptBytes::default());
        for n in 1..=3 {
            kept.push(&json!(n)).await.expect("room");
        }
        let (first, after) = kept.open(None).expect("kept");
        let (one, text) = kept.next(first, after).await.expect("a message");
        assert_eq!((one, &*text), (1, "1"));
        assert_eq!(kept.next(first, 1).await.expect("a message").0, 2);
        let (second, after) = kept.open(Some(1)).expect("kept");
        assert_eq!(kept.next(first, 2).await, None, "another stream took over");
        assert_eq!(kept.next(second, after).await.expect("a message").0, 2);
        let (third, after) = kept.open(None).expect("kept");
        assert_eq!(kept.next(third, after).await.expect("a message").0, 3, "after what was sent");
        kept.close();
        assert_eq!(kept.next(third, 3).await, None);
        assert_eq!(kept.push(&json!(4)).await, Err(Gone));
    }

    #[tokio::test]
    async fn after_a_restart_nothing_is_taken_for_seen() {
        let kept = KeptStream::new(1_000, KeptBytes::default());
        for n in 1..=9 {
            kept.push(&json!(n)).await.expect("room");
        }
        let (stream, after) = kept.open(Some(7)).expect("a number of the time before");
        assert_eq!(kept.next(stream, after).await.expect("a message").0, 1_001);
    }

    #[tokio::test]
    async fn what_was_not_sent_is_not_dropped() {
        let kept = Arc::new(KeptStream::new(0, KeptBytes::default()));
        for n in 1..=limits::HTTP_KEPT_MAX {
            kept.push(&json!(n)).await.expect("room");
        }
        let waiting = tokio::spawn({
            let kept = kept.clone();
            async move { kept.push(&json!("more")).await }
        });
        let (stream, mut after) = kept.open(None).expect("kept");
        for expected in 1..=limits::HTTP_KEPT_MAX as u64 + 1 {
            let (number, _) = kept.next(stream, after).await.expect("a message");
            assert_eq!(number, expected);
            after = number;
        }
        assert_eq!(waiting.await.expect("no panic"), Ok(()));
        assert_eq!(kept.open(Some(0)), None, "the first ones are not kept any more");
    }
    #[tokio::test]
    async fn beyond_the_bytes_of_all_streams_each_keeps_what_was_not_sent() {
        let all = KeptBytes::default();
        let (one, other) = (KeptStream::new(0, all.clone()), KeptStream::new(0, all.clone()));
        one.push(&json!(1)).await.expect("room");
        one.push(&json!(2)).await.expect("room");
        all.fetch_add(limits::HTTP_KEPT_OF_ALL_MAX_BYTES, Ordering::Relaxed);
        let (stream, after) = one.open(None).expect("kept");
        assert_eq!(one.next(stream, after).await.expect("a message").0, 1);
        assert!(!one.state().make_room(), "the second one was not sent");
        assert_eq!(one.next(stream, 1).await.expect("a message").0, 2);
        assert!(one.state().make_room() && other.state().make_room());
        assert_eq!(one.open(Some(0)), None, "what was sent is dropped");
        other.push(&json!(1)).await.expect("room for one");
        assert!(!other.state().make_room());
        drop((one, other));
        assert_eq!(all.load(Ordering::Relaxed), limits::HTTP_KEPT_OF_ALL_MAX_BYTES);
    }
}
