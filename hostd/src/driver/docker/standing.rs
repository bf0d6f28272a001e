//! What is thought of the engine: away, being tried out, not good enough, or good.

use super::{engine::Meeting, ids::Ids, limits::FIT_WAIT_MAX_MS};
use crate::driver::DriverError;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::watch, time::timeout};

/// What was found out about an engine that runs sandboxes as it should.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitness {
    pub meeting: Meeting,
    pub ids: Ids,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone)]
pub enum Standing {
    /// Nothing was tried yet.
    Begun,
    Away {
        why: String,
    },
    Unfit {
        engine: String,
        why: String,
    },
    Fit(Arc<Fitness>),
}

pub struct Opinion {
    now: watch::Sender<Standing>,
    /// The last good one: good again as soon as it is back.
    last: Mutex<Option<Arc<Fitness>>>,
}

impl Opinion {
    pub fn new() -> Self {
        Self { now: watch::channel(Standing::Begun).0, last: Mutex::default() }
    }

    pub fn set(&self, standing: Standing) {
        if let Standing::Fit(fitness) = &standing {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(fitness));
        }
        self.now.send_replace(standing);
    }

    /// One that does not fit does not get better by going away.
    pub fn away(&self, why: String) {
        self.set(Standing::Away { why });
    }

    /// Whether the one that is back is the one that was good.
    pub fn back(&self, meeting: &Meeting) -> bool {
        let last = self.last();
        let Some(fitness) = last.filter(|fitness| fitness.meeting == *meeting) else { return false };
        self.set(Standing::Fit(fitness));
        true
    }

    pub fn now(&self) -> Standing {
        self.now.borrow().clone()
    }

    /// The last good one, also while it is away.
    pub fn last(&self) -> Option<Arc<Fitness>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn fit(&self) -> Result<Arc<Fitness>, DriverError> {
        let message = match self.now() {
            Standing::Fit(fitness) => return Ok(fitness),
            Standing::Begun => "the container engine is being tried out".to_owned(),
            Standing::Away { why } => why,
            Standing::Unfit { engine, why } => format!("{engine} does not run a sandbox here: {why}"),
        };
        Err(DriverError::Unavailable { message })
    }

    /// The same; one that is not ready is given a moment.
    pub async fn fit_soon(&self) -> Result<Arc<Fitness>, DriverError> {
        let mut now = self.now.subscribe();
        let fit = now.wait_for(|standing| matches!(standing, Standing::Fit(_)));
        // Late or not, what is so then is the answer.
        let _ = timeout(Duration::from_millis(FIT_WAIT_MAX_MS), fit).await;
        self.fit()
    }

    /// Until something is known.
    pub async fn known(&self) {
        let mut now = self.now.subscribe();
        // An error means that nobody will ever know more.
        let _ = now.wait_for(|standing| !matches!(standing, Standing::Begun)).await;
    }
}
