//! Engine health: untested, unreachable, unfit or fit.

use super::{engine::EngineInfo, engine_checks::IdMap, limits::ENGINE_READY_WAIT_MAX_MS};
use crate::DriverError;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::watch, time::timeout};

/// An engine that passed the probe, with what the probe found out.
#[derive(Debug, Clone, PartialEq)]
pub struct FitEngine {
    pub info: EngineInfo,
    pub id_map: IdMap,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone)]
pub enum EngineHealth {
    /// The first probe has not finished.
    Untested,
    Unreachable {
        why: String,
    },
    Unfit {
        engine: String,
        why: String,
    },
    Fit(Arc<FitEngine>),
}

pub struct EngineHealthWatch {
    current: watch::Sender<EngineHealth>,
    /// The last engine that passed the probe; fit again without a probe when it reconnects unchanged.
    last_fit: Mutex<Option<Arc<FitEngine>>>,
}

impl EngineHealthWatch {
    /// Whether sandboxes have the ids of the host, as far as is known.
    pub fn keeps_ids(&self) -> bool {
        let last_fit = self.last_fit.lock().unwrap_or_else(PoisonError::into_inner);
        last_fit.as_ref().is_some_and(|engine| engine.id_map.is_identity())
    }

    pub fn new() -> Self {
        Self { current: watch::channel(EngineHealth::Untested).0, last_fit: Mutex::default() }
    }

    pub fn set(&self, health: EngineHealth) {
        if let EngineHealth::Fit(fit_engine) = &health {
            *self.last_fit.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(fit_engine));
        }
        self.current.send_replace(health);
    }

    /// Marks the engine as unreachable, also one that was unfit.
    pub fn set_unreachable(&self, why: String) {
        self.set(EngineHealth::Unreachable { why });
    }

    /// Marks the engine as fit if it is the one that passed the probe before; returns whether it is.
    pub fn restore_if_same(&self, info: &EngineInfo) -> bool {
        let last_fit = self.last_fit();
        let Some(fit_engine) = last_fit.filter(|fit_engine| fit_engine.info == *info) else { return false };
        self.set(EngineHealth::Fit(fit_engine));
        true
    }

    pub fn current(&self) -> EngineHealth {
        self.current.borrow().clone()
    }

    /// The last engine that passed the probe, also while it is unreachable.
    pub fn last_fit(&self) -> Option<Arc<FitEngine>> {
        self.last_fit.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn require_fit(&self) -> Result<Arc<FitEngine>, DriverError> {
        let message = match self.current() {
            EngineHealth::Fit(fit_engine) => return Ok(fit_engine),
            EngineHealth::Untested => "the container engine is being probed".to_owned(),
            EngineHealth::Unreachable { why } => why,
            EngineHealth::Unfit { engine, why } => format!("{engine} does not run a sandbox here: {why}"),
        };
        Err(DriverError::Unavailable { message })
    }

    /// Like `require_fit`, after waiting a limited time for the engine to become fit.
    pub async fn wait_until_fit(&self) -> Result<Arc<FitEngine>, DriverError> {
        let mut current = self.current.subscribe();
        let fit = current.wait_for(|health| matches!(health, EngineHealth::Fit(_)));
        // Late or not, the health at this moment decides.
        let _ = timeout(Duration::from_millis(ENGINE_READY_WAIT_MAX_MS), fit).await;
        self.require_fit()
    }

    /// Waits for the first result of a probe.
    pub async fn wait_until_tested(&self) {
        let mut current = self.current.subscribe();
        // An error means that the sender is gone and no result will follow.
        let _ = current.wait_for(|health| !matches!(health, EngineHealth::Untested)).await;
    }
}
