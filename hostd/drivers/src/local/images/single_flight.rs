//! Deduplicates concurrent work by name: the first caller leads, the others receive its progress and result.
//! When the leader is dropped, a waiting caller takes over.

use super::image_error::ImageError;
use crate::ProgressSink;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

#[derive(Debug, Clone)]
enum FlightState {
    Started,
    Progress(String),
    Done(Result<(), ImageError>),
}

#[derive(Clone, Default)]
pub struct SingleFlight {
    flights: Arc<Mutex<HashMap<String, watch::Receiver<FlightState>>>>,
}

/// The role of a caller.
pub enum Flight {
    Leader(Leader),
    /// Another caller did the work.
    Done(Result<(), ImageError>),
}

/// The caller that does the work. Dropping it lets another caller lead.
pub struct Leader {
    single_flight: SingleFlight,
    name: String,
    state: Arc<watch::Sender<FlightState>>,
    /// Reports to the leader's own caller and to everyone waiting.
    pub progress: ProgressSink,
}

impl SingleFlight {
    /// Leads the work, or waits for the current leader.
    pub async fn join(&self, name: &str, progress: &ProgressSink) -> Flight {
        loop {
            let state = match self.take(name, progress) {
                Ok(leader) => return Flight::Leader(leader),
                Err(state) => state,
            };
            if let Some(result) = received(state, progress).await {
                return Flight::Done(result);
            }
        }
    }

    fn take(&self, name: &str, progress: &ProgressSink) -> Result<Leader, watch::Receiver<FlightState>> {
        let mut flights = self.lock();
        if let Some(state) = flights.get(name) {
            return Err(state.clone());
        }
        let (state, listen) = watch::channel(FlightState::Started);
        flights.insert(name.to_owned(), listen);
        let state = Arc::new(state);
        let (own, others) = (progress.clone(), Arc::clone(&state));
        let progress = ProgressSink::new(move |text| {
            own.report(text);
            others.send_replace(FlightState::Progress(text.to_owned()));
        });
        Ok(Leader { single_flight: self.clone(), name: name.to_owned(), state, progress })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<FlightState>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leader {
    pub fn end(self, result: Result<(), ImageError>) -> Result<(), ImageError> {
        self.state.send_replace(FlightState::Done(result.clone()));
        result
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.single_flight.lock().remove(&self.name);
    }
}

/// Waits for the leader's result; `None` when the leader was dropped without one.
async fn received(
    mut state: watch::Receiver<FlightState>,
    progress: &ProgressSink,
) -> Option<Result<(), ImageError>> {
    loop {
        match &*state.borrow_and_update() {
            FlightState::Started => {}
            FlightState::Progress(text) => progress.report(text),
            FlightState::Done(result) => return Some(result.clone()),
        }
        state.changed().await.ok()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Semaphore;

    #[tokio::test]
    async fn concurrent_callers_share_one_run_its_progress_and_result() {
        let (single_flight, done, gate) = (SingleFlight::default(), AtomicUsize::new(0), Semaphore::new(0));
        let received = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&received);
        let progress = ProgressSink::new(move |text| {
            assert_eq!(text, "half");
            count.fetch_add(1, Ordering::SeqCst);
        });
        let one = async || match single_flight.join("one", &progress).await {
            Flight::Done(result) => result,
            Flight::Leader(leader) => {
                done.fetch_add(1, Ordering::SeqCst);
                leader.progress.report("half");
                gate.acquire().await.expect("open").forget();
                leader.end(Err(ImageError::DiskFull))
            }
        };
        let all = futures_util::future::join_all((0..20).map(|_| one()));
        let (all, ()) = tokio::join!(all, async { gate.add_permits(1) });
        assert!(all.iter().all(|result| *result == Err(ImageError::DiskFull)));
        assert_eq!(done.load(Ordering::SeqCst), 1);
        assert_eq!(received.load(Ordering::SeqCst), 20);
        // Finished work is not remembered: the next caller leads again.
        gate.add_permits(1);
        let _ = one().await;
        assert_eq!(done.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn when_the_leader_is_dropped_another_takes_over() {
        let (single_flight, progress) = (SingleFlight::default(), ProgressSink::default());
        let Flight::Leader(first) = single_flight.join("one", &progress).await else {
            panic!("there is no other caller")
        };
        let mut second = Box::pin(single_flight.join("one", &progress));
        assert!(futures_util::poll!(second.as_mut()).is_pending());
        drop(first);
        assert!(matches!(second.await, Flight::Leader(_)));
    }
}
