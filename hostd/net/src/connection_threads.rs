//! Threads that serve connections, each with a runtime of its own: a connection stays on its thread, so it
//! wakes no other one.

use std::{
    io,
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use tokio::{
    runtime::{Builder, Handle},
    task::JoinSet,
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The threads end when the last clone is dropped. Tasks that still run then are aborted.
#[derive(Clone)]
pub struct ConnectionThreads {
    threads: Arc<[Handle]>,
    next: Arc<AtomicUsize>,
    _until: Arc<DropGuard>,
}

impl ConnectionThreads {
    /// Starts as many threads as there are cores.
    pub fn start(name: &str) -> io::Result<Self> {
        let count = thread::available_parallelism().map_or(1, NonZero::get);
        let until = CancellationToken::new();
        let threads = (0..count).map(|number| {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (handle, until) = (runtime.handle().clone(), until.clone());
            let name = format!("{name}-{number}");
            thread::Builder::new().name(name).spawn(move || runtime.block_on(until.cancelled()))?;
            Ok(handle)
        });
        let threads = threads.collect::<io::Result<_>>()?;
        Ok(Self { threads, next: Arc::default(), _until: Arc::new(until.drop_guard()) })
    }

    /// Spawns tasks round-robin over the threads.
    pub fn spawn(&self, tasks: &mut JoinSet<()>, task: impl Future<Output = ()> + Send + 'static) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.threads.len();
        tasks.spawn_on(task, &self.threads[turn]);
    }
}
