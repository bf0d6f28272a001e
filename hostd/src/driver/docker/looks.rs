//! Containers that something happened to: asked about a few at a time, so that one whose question is not
//! answered holds up no other.

use super::{engine::EngineError, limits::ASKS_MAX, mirror::Told};
use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use std::collections::{HashSet, VecDeque};

type Answer = Result<Told, EngineError>;

pub struct Looks<'a> {
    ask: Box<dyn Fn(String) -> BoxFuture<'a, Answer> + Send + 'a>,
    waiting: VecDeque<String>,
    asked: HashSet<String>,
    under_way: FuturesUnordered<BoxFuture<'a, (String, Answer)>>,
}

impl<'a> Looks<'a> {
    pub fn new(ask: impl Fn(String) -> BoxFuture<'a, Answer> + Send + 'a) -> Self {
        let (waiting, asked) = (VecDeque::new(), HashSet::new());
        Self { ask: Box::new(ask), waiting, asked, under_way: FuturesUnordered::new() }
    }

    /// Whether it is the first that waits. One that is being asked about is asked about again: the answer may
    /// be older than what happened.
    pub fn touch(&mut self, container: String) -> bool {
        let first = self.waiting.is_empty();
        if !self.waiting.contains(&container) {
            self.waiting.push_back(container);
        }
        first
    }

    pub fn may_begin(&self) -> bool {
        self.under_way.len() < ASKS_MAX && self.waiting.iter().any(|one| !self.asked.contains(one))
    }

    pub fn begin(&mut self) {
        while self.may_begin()
            && let Some(place) = self.waiting.iter().position(|one| !self.asked.contains(one))
            && let Some(container) = self.waiting.remove(place)
        {
            self.asked.insert(container.clone());
            let answer = (self.ask)(container.clone());
            self.under_way.push(Box::pin(async move { (container, answer.await) }));
        }
    }

    /// Which one was answered. Nothing is lost when this is cut off.
    pub async fn answered(&mut self) -> Result<String, EngineError> {
        let Some((container, answer)) = self.under_way.next().await else {
            return std::future::pending().await;
        };
        self.asked.remove(&container);
        match answer? {
            Told::Now => {}
            Told::Late => drop(self.touch(container.clone())),
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
    async fn one_that_is_not_answered_holds_up_nobody_and_is_asked_again() {
        let (gate, asked) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(vec![])));
        let (opened, heard) = (gate.clone(), asked.clone());
        let mut looks = Looks::new(move |container: String| -> BoxFuture<'static, Answer> {
            heard.lock().expect("one writer").push(container.clone());
            let gate = opened.clone();
            Box::pin(async move {
                if container != "stuck" {
                    return Ok(Told::Now);
                }
                gate.acquire().await.expect("open").forget();
                Ok(Told::Late)
            })
        });
        assert!(looks.touch("stuck".to_owned()) && !looks.touch("a".to_owned()));
        looks.begin();
        assert_eq!(looks.answered().await.expect("told"), "a");
        // It happened again while it is being asked about: not twice at once.
        looks.touch("stuck".to_owned());
        looks.touch("b".to_owned());
        looks.begin();
        assert_eq!(looks.answered().await.expect("told"), "b");
        assert!(!looks.may_begin());
        gate.add_permits(1);
        assert_eq!(looks.answered().await.expect("told late"), "stuck");
        assert!(looks.may_begin());
        looks.begin();
        assert_eq!(*asked.lock().expect("asked"), ["stuck", "a", "b", "stuck"]);
    }

    #[tokio::test]
    async fn only_so_many_are_asked_about_at_once() {
        let mut looks = Looks::new(|_| Box::pin(std::future::pending()));
        for n in 0..2 * ASKS_MAX {
            looks.touch(n.to_string());
        }
        looks.begin();
        assert_eq!((looks.under_way.len(), looks.waiting.len()), (ASKS_MAX, ASKS_MAX));
    }
}
