//! One at a time of what many want: the first does it, the others hear how far it is and how it ended.
//! When the first goes away in the middle, another takes over.

use super::failure::Failure;
use crate::driver::ProgressSink;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

#[derive(Debug, Clone)]
enum Word {
    Begun,
    Told(String),
    Ended(Result<(), Failure>),
}

#[derive(Clone, Default)]
pub struct Flights {
    under_way: Arc<Mutex<HashMap<String, watch::Receiver<Word>>>>,
}

/// Whose turn it is.
pub enum Turn {
    Mine(Lead),
    /// Somebody else did it.
    Ended(Result<(), Failure>),
}

/// Whoever does it. Gone, so that another may, when this is dropped.
pub struct Lead {
    flights: Flights,
    name: String,
    word: Arc<watch::Sender<Word>>,
    /// To tell oneself and all who wait.
    pub progress: ProgressSink,
}

impl Flights {
    /// Waits for whoever does it already.
    pub async fn turn(&self, name: &str, progress: &ProgressSink) -> Turn {
        loop {
            let word = match self.take(name, progress) {
                Ok(lead) => return Turn::Mine(lead),
                Err(word) => word,
            };
            if let Some(result) = heard(word, progress).await {
                return Turn::Ended(result);
            }
        }
    }

    fn take(&self, name: &str, progress: &ProgressSink) -> Result<Lead, watch::Receiver<Word>> {
        let mut under_way = self.lock();
        if let Some(word) = under_way.get(name) {
            return Err(word.clone());
        }
        let (word, listen) = watch::channel(Word::Begun);
        under_way.insert(name.to_owned(), listen);
        let word = Arc::new(word);
        let (own, others) = (progress.clone(), Arc::clone(&word));
        let progress = ProgressSink::new(move |text| {
            own.report(text);
            others.send_replace(Word::Told(text.to_owned()));
        });
        Ok(Lead { flights: self.clone(), name: name.to_owned(), word, progress })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<Word>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lead {
    pub fn end(self, result: Result<(), Failure>) -> Result<(), Failure> {
        self.word.send_replace(Word::Ended(result.clone()));
        result
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.flights.lock().remove(&self.name);
    }
}

/// How it ended; nothing when whoever did it went away.
async fn heard(mut word: watch::Receiver<Word>, progress: &ProgressSink) -> Option<Result<(), Failure>> {
    loop {
        match &*word.borrow_and_update() {
            Word::Begun => {}
            Word::Told(text) => progress.report(text),
            Word::Ended(result) => return Some(result.clone()),
        }
        word.changed().await.ok()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Semaphore;

    #[tokio::test]
    async fn many_who_want_the_same_get_it_once_and_hear_of_it() {
        let (flights, done, gate) = (Flights::default(), AtomicUsize::new(0), Semaphore::new(0));
        let heard = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&heard);
        let progress = ProgressSink::new(move |text| {
            assert_eq!(text, "half");
            count.fetch_add(1, Ordering::SeqCst);
        });
        let one = async || match flights.turn("one", &progress).await {
            Turn::Ended(result) => result,
            Turn::Mine(lead) => {
                done.fetch_add(1, Ordering::SeqCst);
                lead.progress.report("half");
                gate.acquire().await.expect("open").forget();
                lead.end(Err(Failure::DiskFull))
            }
        };
        let all = futures_util::future::join_all((0..20).map(|_| one()));
        let (all, ()) = tokio::join!(all, async { gate.add_permits(1) });
        assert!(all.iter().all(|result| *result == Err(Failure::DiskFull)));
        assert_eq!(done.load(Ordering::SeqCst), 1);
        assert_eq!(heard.load(Ordering::SeqCst), 20);
        // What ended is tried anew.
        gate.add_permits(1);
        let _ = one().await;
        assert_eq!(done.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn when_the_first_goes_away_another_takes_over() {
        let (flights, progress) = (Flights::default(), ProgressSink::default());
        let Turn::Mine(first) = flights.turn("one", &progress).await else { panic!("nobody else is there") };
        let mut second = Box::pin(flights.turn("one", &progress));
        assert!(futures_util::poll!(second.as_mut()).is_pending());
        drop(first);
        assert!(matches!(second.await, Turn::Mine(_)));
    }
}
