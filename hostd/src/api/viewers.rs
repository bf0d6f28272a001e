//! Places for those who watch: streams of events and viewers of terminals. Fewer than there are connections, so
//! that calls still come through, and for each principal as many as it leaves free, so that others can watch too.
//! Those who watch over the Unix socket have places of their own.

use super::{call::Call, failure::Failure, serve::connections_max};
use crate::core::{
    Identity,
    connection_admission::{Places, is_fair},
};
use protocol::api::{ApiErrorCode, Label};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

type Who = (Label, Label);

pub struct Viewers {
    tcp: Pool,
    unix: Pool,
}

#[derive(Clone)]
struct Pool {
    most: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    of: HashMap<Who, usize>,
}

/// Given back when dropped.
pub struct Place {
    pool: Pool,
    who: Who,
}

impl Default for Viewers {
    fn default() -> Self {
        let most = Places::of(connections_max()).streams();
        Self { tcp: Pool::new(most), unix: Pool::new(most) }
    }
}

impl Call {
    /// A place for this caller, who wants to watch something.
    pub fn viewer(&self) -> Result<Place, Failure> {
        let Viewers { tcp, unix } = &self.api.viewers;
        if self.seat.is_some() { tcp.take(&self.who) } else { unix.take(&self.who) }
    }
}

impl Pool {
    fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    fn take(&self, who: &Identity) -> Result<Place, Failure> {
        let who = (who.tenant.clone(), who.principal.clone());
        let mut taken = self.lock();
        let mine = taken.of.get(&who).copied().unwrap_or_default();
        let free = self.most.saturating_sub(taken.all);
        if free == 0 {
            let message = format!(
                "all {} streams of events and terminals are in use; close some, or try again in a moment",
                self.most
            );
            return Err(Failure::new(ApiErrorCode::TooMany, message));
        }
        if !is_fair(mine, free) {
            let message = format!(
                "this principal watches {mine} events and terminals at once, its share of those that are left; \
                 close some"
            );
            return Err(Failure::new(ApiErrorCode::TooMany, message));
        }
        taken.all += 1;
        *taken.of.entry(who.clone()).or_default() += 1;
        drop(taken);
        Ok(Place { pool: self.clone(), who })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.pool.lock();
        taken.all -= 1;
        if let Some(count) = taken.of.get_mut(&self.who) {
            *count -= 1;
            if *count == 0 {
                taken.of.remove(&self.who);
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
        let pool = Pool::new(100);
        let take = |who: &Identity| std::iter::from_fn(|| pool.take(who).ok()).collect::<Vec<_>>();
        let greedy = take(&who("ann"));
        assert_eq!(greedy.len(), 50);
        let second = take(&who("bob"));
        assert_eq!(second.len(), 25);
        assert!(pool.take(&who("cid")).is_ok());
        drop((greedy, second));
        assert!(pool.lock().of.is_empty() && pool.lock().all == 0, "nothing is remembered of who has gone");
        assert_eq!(take(&who("ann")).len(), 50);
    }
}
