//! The one thread that writes. It takes what is queued, runs it in one transaction, and answers when that
//! is on the disk: many callers share one `fsync`.
//!
//! A job that fails is rolled back to its own savepoint and hurts no other. When the transaction as a
//! whole fails (a full disk), nothing of it happened and every caller in it is told so; the next batch
//! tries again, so writing goes on as soon as there is space.

use super::{
    error::{During, Result, StoreError},
    event_feed::Feed,
    event_log,
    events::EventFilter,
    failpoint, limits,
    task_events::newest_seq,
    wal::{WalFile, checkpoint_passive},
};
use rusqlite::Connection;
use std::{
    error::Error,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, info};

pub(super) enum WriterMessage {
    Job(Box<dyn Job>),
    /// In one transaction, in this order.
    Jobs(Vec<Box<dyn Job>>),
    /// Fold the write-ahead log in and cut it off, if nobody reads it and the disk has room.
    TruncateWal(oneshot::Sender<Result<bool>>),
    /// Finish what is queued, take nothing more, and end.
    Close,
}

/// A write and whoever waits for it, with the type of its result forgotten.
pub(super) trait Job: Send {
    fn name(&self) -> &'static str;
    /// Does the work inside a savepoint. Its error, when it failed.
    fn run(&mut self, conn: &Connection) -> std::result::Result<(), StoreError>;
    /// Tells the caller: its own result, or why the whole transaction was lost.
    fn reply(self: Box<Self>, lost: Option<StoreError>);
}

pub(super) struct WriteJob<T, F> {
    name: &'static str,
    work: Option<F>,
    result: Result<T>,
    sender: oneshot::Sender<Result<T>>,
}

impl<T, F> WriteJob<T, F>
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> Result<T> + Send + 'static,
{
    pub(super) fn boxed(name: &'static str, work: F) -> (Box<dyn Job>, oneshot::Receiver<Result<T>>) {
        let (sender, reply) = oneshot::channel();
        (Box::new(Self { name, work: Some(work), result: Err(StoreError::Broken), sender }), reply)
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
        // A fault in one write must not end the writer: everybody needs it.
        match catch_unwind(AssertUnwindSafe(|| work(conn))) {
            Ok(result) => self.result = result,
            Err(_) => error!(write = self.name, "a write panicked"),
        }
        self.result.as_ref().map(|_| ()).map_err(StoreError::clone)
    }

    fn reply(self: Box<Self>, lost: Option<StoreError>) {
        // The caller may have gone; what it asked for is done all the same.
        let _ = self.sender.send(lost.map_or(self.result, Err));
    }
}

pub(super) struct Writer {
    pub conn: Connection,
    pub wal: WalFile,
    pub queue: mpsc::Receiver<WriterMessage>,
    pub head: watch::Sender<u64>,
    pub feed: Feed,
    /// Whether the last transaction was lost, so that a full disk is said once and not at every try.
    pub failing: bool,
}

impl Writer {
    pub(super) fn run(mut self) {
        self.wal.preallocate();
        while let Some(batch) = self.next_batch() {
            self.write(batch);
        }
        let folded = match self.wal.truncate(&self.conn) {
            Ok(true) => Ok(()),
            Ok(false) => checkpoint_passive(&self.conn),
            Err(error) => Err(error),
        };
        if let Err(error) = folded {
            // The log stays beside the file, and the next open reads it.
            error!(%error, "could not fold the write-ahead log into the database");
        }
    }

    /// What is queued now, at least one; nothing when nobody will ever write again.
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
                // No transaction is open here. Whoever asked may have gone.
                Some(WriterMessage::TruncateWal(reply)) => drop(reply.send(self.wal.truncate(&self.conn))),
                Some(WriterMessage::Close) => self.queue.close(),
                None => break,
            }
        }
        if batch.is_empty() { None } else { Some(batch) }
    }

    /// Writes a batch and answers it. Those who follow go first: who has its answer sees its event.
    fn write(&mut self, mut batch: Vec<Box<dyn Job>>) {
        self.wal.before_batch(&self.conn);
        let lost = self.transaction(&mut batch).err();
        match &lost {
            None => self.publish(),
            Some(_) => self.rollback(),
        }
        match &lost {
            Some(StoreError::Full) => self.wal.on_disk_full(),
            Some(_) | None => self.wal.preallocate(),
        }
        match (&lost, mem::replace(&mut self.failing, lost.is_some())) {
            (Some(error), false) => error!(error = error as &dyn Error, "writes fail"),
            (None, true) => info!("writes succeed again"),
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

    /// Fails only when the whole transaction is gone with it.
    fn run_one(&self, job: &mut dyn Job) -> Result<()> {
        self.execute("SAVEPOINT job")?;
        match job.run(&self.conn) {
            Ok(()) => self.execute("RELEASE job"),
            // Some errors, a full disk among them, make SQLite roll everything back at once.
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
            error!(%error, "could not roll back");
        }
    }

    fn execute(&self, sql: &'static str) -> Result<()> {
        let mut statement = self.conn.prepare_cached(sql).during("write to the database")?;
        statement.execute([]).map(|_| ()).during("write to the database")
    }

    fn publish(&self) {
        let seq = match newest_seq(&self.conn) {
            Ok(seq) => seq,
            Err(error) => return error!(%error, "could not read the newest event"),
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

    /// Gives what was committed to those who follow.
    fn publish_from(&self, mut published: u64, seq: u64) {
        while published < seq {
            match event_log::read(&self.conn, &EventFilter::default(), published) {
                Ok(part) if part.through > published => {
                    published = part.through;
                    self.feed.publish(part.batches, published);
                }
                Ok(_) => return self.feed.skip(seq),
                Err(error) => {
                    error!(%error, "could not read back what was written");
                    return self.feed.skip(seq);
                }
            }
        }
    }
}
