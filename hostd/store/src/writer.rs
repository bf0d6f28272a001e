//! The writer thread. It runs queued jobs in one transaction and replies once that is on the disk: many
//! callers share one `fsync`.
//!
//! A job that fails is rolled back to its own savepoint and affects no other. When the whole transaction
//! fails (a full disk), nothing is written and every caller in it gets the error; the next batch tries again,
//! so writes go on as soon as there is space.

use super::{
    error::{During, Result, StoreError},
    event_feed::Feed,
    event_log,
    events::EventFilter,
    failpoint, limits,
    metrics::StoreMetrics,
    task_events::newest_seq,
    wal::{WalFile, checkpoint_passive},
};
use rusqlite::Connection;
use std::{
    error::Error,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, info};

pub(super) enum WriterMessage {
    Job(Box<dyn Job>),
    /// Jobs of one transaction, in this order.
    Jobs(Vec<Box<dyn Job>>),
    /// Checkpoints and truncates the WAL, unless a reader holds it or the disk is full.
    TruncateWal(oneshot::Sender<Result<bool>>),
    /// Finish queued jobs, refuse new ones, and end.
    Close,
}

/// A write and the sender of its reply, with the type of its result erased.
pub(super) trait Job: Send {
    fn name(&self) -> &'static str;
    /// Runs the write inside a savepoint.
    fn run(&mut self, conn: &Connection) -> std::result::Result<(), StoreError>;
    /// Called when the transaction is on the disk, before its events are published.
    fn committed(&mut self);
    /// Sends the reply: the result of the write, or the error that lost the whole transaction.
    fn reply(self: Box<Self>, lost: Option<StoreError>);
}

/// What follows the commit of a write that succeeded.
type Committed<T> = Box<dyn FnOnce(&T) + Send>;

pub(super) struct WriteJob<T, F> {
    name: &'static str,
    work: Option<F>,
    result: Result<T>,
    committed: Option<Committed<T>>,
    sender: oneshot::Sender<Result<T>>,
}

impl<T, F> WriteJob<T, F>
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> Result<T> + Send + 'static,
{
    pub(super) fn boxed(name: &'static str, work: F) -> (Box<dyn Job>, oneshot::Receiver<Result<T>>) {
        Self::boxed_then(name, work, None)
    }

    pub(super) fn boxed_then(
        name: &'static str,
        work: F,
        committed: Option<Committed<T>>,
    ) -> (Box<dyn Job>, oneshot::Receiver<Result<T>>) {
        let (sender, reply) = oneshot::channel();
        (Box::new(Self { name, work: Some(work), result: Err(StoreError::Broken), committed, sender }), reply)
    }
}

impl<T, F> Job for WriteJob<T, F>
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> Result<T> + Send + 'static,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, conn: &Connection) -> Result<()> {
        let Some(work) = self.work.take() else { return Err(StoreError::Broken) };
        // A panic in one write must not end the writer.
        match catch_unwind(AssertUnwindSafe(|| work(conn))) {
            Ok(result) => self.result = result,
            Err(_) => error!(write = self.name, "write panicked"),
        }
        self.result.as_ref().map(|_| ()).map_err(StoreError::clone)
    }

    fn committed(&mut self) {
        if let (Some(committed), Ok(result)) = (self.committed.take(), &self.result) {
            committed(result);
        }
    }

    fn reply(self: Box<Self>, lost: Option<StoreError>) {
        // The caller may be gone; its write has happened all the same.
        let _ = self.sender.send(lost.map_or(self.result, Err));
    }
}

pub(super) struct Writer {
    pub conn: Connection,
    pub wal: WalFile,
    pub queue: mpsc::Receiver<WriterMessage>,
    pub head: watch::Sender<u64>,
    pub feed: Feed,
    pub metrics: StoreMetrics,
    /// Whether the last transaction was lost, so that a full disk is logged once and not for every batch.
    pub failing: bool,
}

impl Writer {
    pub(super) fn run(mut self) {
        self.wal.preallocate();
        while let Some(batch) = self.next_batch() {
            self.write(batch);
        }
        let checkpointed = match self.wal.truncate(&self.conn) {
            Ok(true) => Ok(()),
            Ok(false) => checkpoint_passive(&self.conn),
            Err(error) => Err(error),
        };
        if let Err(error) = checkpointed {
            // The WAL stays beside the database, and the next open reads it.
            error!(%error, "failed to checkpoint the WAL");
        }
    }

    /// Returns the queued jobs, at least one; `None` when the queue is closed.
    fn next_batch(&mut self) -> Option<Vec<Box<dyn Job>>> {
        let mut batch = Vec::new();
        while batch.len() < limits::BATCH_MAX_JOBS {
            let next = match batch.is_empty() {
                true => self.queue.blocking_recv(),
                false => self.queue.try_recv().ok(),
            };
            match next {
                Some(WriterMessage::Job(job)) => batch.push(job),
                Some(WriterMessage::Jobs(jobs)) => batch.extend(jobs),
                // No transaction is open here. The requester may be gone.
                Some(WriterMessage::TruncateWal(reply)) => drop(reply.send(self.wal.truncate(&self.conn))),
                Some(WriterMessage::Close) => self.queue.close(),
                None => break,
            }
        }
        if batch.is_empty() { None } else { Some(batch) }
    }

    /// Writes a batch and replies. Publishes first: a caller that has its reply must find its event in the
    /// feed.
    fn write(&mut self, mut batch: Vec<Box<dyn Job>>) {
        self.wal.before_batch(&self.conn);
        let started = Instant::now();
        let lost = self.transaction(&mut batch).err();
        match &lost {
            None => self.metrics.commit_duration.observe(started.elapsed().as_secs_f64()),
            Some(_) => {
                self.metrics.failed_commits.inc();
            }
        }
        self.metrics.commit_jobs.observe(batch.len() as f64);
        match &lost {
            None => {
                batch.iter_mut().for_each(|job| job.committed());
                self.publish();
            }
            Some(_) => self.rollback(),
        }
        match &lost {
            Some(StoreError::Full) => self.wal.on_disk_full(),
            Some(_) | None => self.wal.preallocate(),
        }
        match (&lost, mem::replace(&mut self.failing, lost.is_some())) {
            (Some(error), false) => error!(error = error as &dyn Error, "database writes fail"),
            (None, true) => info!("database writes succeed again"),
            (Some(_), true) | (None, false) => {}
        }
        for job in batch {
            job.reply(lost.clone());
        }
    }

    fn transaction(&self, batch: &mut [Box<dyn Job>]) -> Result<()> {
        self.execute("BEGIN IMMEDIATE")?;
        for job in batch.iter_mut() {
            self.run_one(job.as_mut())?;
        }
        for job in batch.iter() {
            failpoint::hit_job(job.name(), "before_commit");
        }
        self.execute("COMMIT")?;
        for job in batch.iter() {
            failpoint::hit_job(job.name(), "after_commit");
        }
        Ok(())
    }

    /// Fails only when the whole transaction was lost.
    fn run_one(&self, job: &mut dyn Job) -> Result<()> {
        self.execute("SAVEPOINT job")?;
        match job.run(&self.conn) {
            Ok(()) => self.execute("RELEASE job"),
            // SQLite rolls back the whole transaction on some errors, such as a full disk.
            Err(error) if self.conn.is_autocommit() => Err(error),
            Err(_) => {
                self.execute("ROLLBACK TO job")?;
                self.execute("RELEASE job")
            }
        }
    }

    fn rollback(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            error!(%error, "failed to roll back a transaction");
        }
    }

    fn execute(&self, sql: &'static str) -> Result<()> {
        let mut statement = self.conn.prepare_cached(sql).during("write to the database")?;
        statement.execute([]).map(|_| ()).during("write to the database")
    }

    fn publish(&self) {
        let seq = match newest_seq(&self.conn) {
            Ok(seq) => seq,
            Err(error) => return error!(%error, "failed to read the newest sequence number"),
        };
        if *self.head.borrow() == seq {
            return;
        }
        match self.feed.published_if_followed() {
            Some(published) => self.publish_from(published, seq),
            None => self.feed.skip(seq),
        }
        self.head.send_replace(seq);
    }

    /// Publishes the committed events to the feed.
    fn publish_from(&self, mut published: u64, seq: u64) {
        while published < seq {
            match event_log::read(&self.conn, &EventFilter::default(), published) {
                Ok(part) if part.through > published => {
                    published = part.through;
                    self.feed.publish(part.batches, published);
                }
                Ok(_) => return self.feed.skip(seq),
                Err(error) => {
                    error!(%error, "failed to read back committed events");
                    return self.feed.skip(seq);
                }
            }
        }
    }
}
