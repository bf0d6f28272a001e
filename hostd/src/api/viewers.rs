//! Places for those who watch: streams of events and viewers of terminals. So many in all, so that calls
//! still come through, and so many for each principal, so that others can watch too.

use super::{failure::Failure, limits};
use crate::core::Identity;
use protocol::api::{ApiErrorCode, Label};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

type Who = (Label, Label);

#[derive(Clone)]
pub struct Viewers {
    all: Arc<Semaphore>,
    of: Arc<Mutex<HashMap<Who, usize>>>,
}

/// Given back when dropped.
pub struct Place {
    _one: OwnedSemaphorePermit,
    viewers: Viewers,
    who: Who,
}

impl Default for Viewers {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(limits::VIEWERS_MAX)), of: Arc::default() }
    }
}

impl Viewers {
    pub fn take(&self, who: &Identity) -> Result<Place, Failure> {
        let full = |message: &str| Failure::new(ApiErrorCode::TooMany, message);
        let one = self.all.clone().try_acquire_owned();
        let one = one.map_err(|_| full("too many watch events and terminals; try again"))?;
        let who = (who.tenant.clone(), who.principal.clone());
        let mut of = self.lock();
        let mine = of.entry(who.clone()).or_default();
        if *mine >= limits::VIEWERS_OF_ONE_MAX {
            return Err(full("you watch too many events and terminals at once; close some"));
        }
        *mine += 1;
        drop(of);
        Ok(Place { _one: one, viewers: self.clone(), who })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Who, usize>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut of = self.viewers.lock();
        if let Some(count) = of.get_mut(&self.who) {
            *count -= 1;
            if *count == 0 {
                of.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::TokenScope;

    fn who(principal: &str) -> Identity {
        let label = |text| Label::parse(text).expect("a label");
        let (tenant, principal) = (label("acme"), label(principal));
        Identity { tenant, principal, scope: TokenScope::Read, operator: false, via: String::new() }
    }

    #[test]
    fn nobody_takes_the_places_of_others() {
        let viewers = Viewers::default();
        let take = |who: &Identity| std::iter::from_fn(|| viewers.take(who).ok()).collect::<Vec<_>>();
        let greedy = take(&who("ann"));
        assert_eq!(greedy.len(), limits::VIEWERS_OF_ONE_MAX);
        assert!(viewers.take(&who("bob")).is_ok());
        let rest = take(&who("bob"));
        assert_eq!(greedy.len() + rest.len(), limits::VIEWERS_MAX);
        drop((greedy, rest));
        assert!(viewers.lock().is_empty(), "nothing is remembered of who has gone");
        assert_eq!(take(&who("ann")).len(), limits::VIEWERS_OF_ONE_MAX);
    }
}
