//! A pool of read-only connections, each used by one thread at a time.

use super::{
    connection::open_reader,
    error::{During, Result, StoreError},
    limits,
};
use rusqlite::Connection;
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{sync::Semaphore, task::spawn_blocking};

pub(super) struct Readers {
    path: PathBuf,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        let permits = Arc::new(Semaphore::new(limits::READERS_MAX));
        Self { path, permits, idle: Arc::default() }
    }

    pub(super) async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let (path, idle) = (self.path.clone(), Arc::clone(&self.idle));
        let reading = spawn_blocking(move || {
            // The permit is held until the work has ended, even when the caller was dropped.
            let _permit = permit;
            let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let conn = match kept {
                Some(conn) => conn,
                None => open_reader(&path).during("open the database")?,
            };
            let result = work(&conn);
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
            result
        });
        reading.await.unwrap_or(Err(StoreError::Broken))
    }

    /// Waits for running reads and refuses new ones.
    pub(super) async fn close(&self) {
        let all = u32::try_from(limits::READERS_MAX).expect("there are few readers");
        let stored = self.permits.acquire_many(all).await;
        self.permits.close();
        drop(stored);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
