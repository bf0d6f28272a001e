//! Containers to inspect after an event: a few at a time, so that one without an answer delays no other.

use super::{container_cache::Refresh, engine::EngineError, limits::INSPECTS_MAX};
use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use std::collections::{HashSet, VecDeque};

type RefreshResult = Result<Refresh, EngineError>;

pub struct InspectQueue<'a> {
    refresh: Box<dyn Fn(String) -> BoxFuture<'a, RefreshResult> + Send + 'a>,
    waiting: VecDeque<String>,
    in_flight: HashSet<String>,
    running: FuturesUnordered<BoxFuture<'a, (String, RefreshResult)>>,
}

impl<'a> InspectQueue<'a> {
    pub fn new(refresh: impl Fn(String) -> BoxFuture<'a, RefreshResult> + Send + 'a) -> Self {
        let (waiting, in_flight) = (VecDeque::new(), HashSet::new());
        Self { refresh: Box::new(refresh), waiting, in_flight, running: FuturesUnordered::new() }
    }

    /// Queues a container; returns whether it is the first in the queue. One that is being inspected is
    /// queued again: its result may be older than the event.
    pub fn enqueue(&mut self, container: String) -> bool {
        let first = self.waiting.is_empty();
        if !self.waiting.contains(&container) {
            self.waiting.push_back(container);
        }
        first
    }

    pub fn can_start(&self) -> bool {
        self.running.len() < INSPECTS_MAX && self.waiting.iter().any(|one| !self.in_flight.contains(one))
    }

    pub fn start(&mut self) {
        while self.can_start()
            && let Some(position) = self.waiting.iter().position(|one| !self.in_flight.contains(one))
            && let Some(container) = self.waiting.remove(position)
        {
            self.in_flight.insert(container.clone());
            let result = (self.refresh)(container.clone());
            self.running.push(Box::pin(async move { (container, result.await) }));
        }
    }

    /// Waits for the next result and returns its container. Cancel-safe.
    pub async fn next_done(&mut self) -> Result<String, EngineError> {
        let Some((container, result)) = self.running.next().await else {
            return std::future::pending().await;
        };
        self.in_flight.remove(&container);
        match result? {
            Refresh::Done => {}
            Refresh::TimedOut => drop(self.enqueue(container.clone())),
        }
        Ok(container)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tokio::sync::Semaphore;

    #[tokio::test]
    async fn a_stuck_inspect_delays_no_other_and_is_repeated() {
        let (gate, in_flight) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(vec![])));
        let (opened, heard) = (gate.clone(), in_flight.clone());
        let mut queue = InspectQueue::new(move |container: String| -> BoxFuture<'static, RefreshResult> {
            heard.lock().expect("one writer").push(container.clone());
            let gate = opened.clone();
            Box::pin(async move {
                if container != "stuck" {
                    return Ok(Refresh::Done);
                }
                gate.acquire().await.expect("open").forget();
                Ok(Refresh::TimedOut)
            })
        });
        assert!(queue.enqueue("stuck".to_owned()) && !queue.enqueue("a".to_owned()));
        queue.start();
        assert_eq!(queue.next_done().await.expect("reported"), "a");
        // A second event during the inspect must not start a second one in parallel.
        queue.enqueue("stuck".to_owned());
        queue.enqueue("b".to_owned());
        queue.start();
        assert_eq!(queue.next_done().await.expect("reported"), "b");
        assert!(!queue.can_start());
        gate.add_permits(1);
        assert_eq!(queue.next_done().await.expect("refreshed late"), "stuck");
        assert!(queue.can_start());
        queue.start();
        assert_eq!(*in_flight.lock().expect("asked"), ["stuck", "a", "b", "stuck"]);
    }

    #[tokio::test]
    async fn concurrent_inspects_are_limited() {
        let mut queue = InspectQueue::new(|_| Box::pin(std::future::pending()));
        for n in 0..2 * INSPECTS_MAX {
            queue.enqueue(n.to_string());
        }
        queue.start();
        assert_eq!((queue.running.len(), queue.waiting.len()), (INSPECTS_MAX, INSPECTS_MAX));
    }
}
