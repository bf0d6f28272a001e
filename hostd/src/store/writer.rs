//! The one thread that writes. It takes what is queued, runs it in one transaction, and answers when that
//! is on the disk: many callers share one `fsync`.
//!
//! A job that fails is rolled back to its own savepoint and hurts no other. When the transaction as a
//! whole fails (a full disk), nothing of it happened and every caller in it is told so; the next batch
//! tries again, so writing goes on as soon as there is space.

use super::{
    error::{During, Result, StoreError},
    events::EventFilter,
    failpoint,
    feed::Feed,
    journal::{JournalRoom, fold_beside},
    limits, log,
    task_events::newest_seq,
};
use rusqlite::Connection;
use std::{
    error::Error,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, info};

pub(super) enum Message {
    Job(Box<dyn Job>),
    /// In one transaction, in this order.
    Jobs(Vec<Box<dyn Job>>),
    /// Fold the write-ahead log in and cut it off, if nobody reads it and the disk has room.
    Fold(oneshot::Sender<Result<bool>>),
    /// Finish what is queued, take nothing more, and end.
    Close,
}

/// A write and whoever waits for it, with the type of its result forgotten.
pub(super) trait Job: Send {
    fn name(&self) -> &'static str;
    /// Does the work inside a savepoint. Its error, when it failed.
    fn run(&mut self, conn: &Connection) -> std::result::Result<(), StoreError>;
    /// Tells the caller: its own result, or why the whole transaction was lost.
    fn answer(self: Box<Self>, lost: Option<StoreError>);
}

pub(super) struct Write<T, F> {
    name: &'static str,
    work: Option<F>,
    result: Result<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Write<T, F>
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> Result<T> + Send + 'static,
{
    pub(super) fn job(name: &'static str, work: F) -> (Box<dyn Job>, oneshot::Receiver<Result<T>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Self { name, work: Some(work), result: Err(StoreError::Broken), reply }), answer)
    }
}

impl<T, F> Job for Write<T, F>
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

    fn answer(self: Box<Self>, lost: Option<StoreError>) {
        // The caller may have gone; what it asked for is done all the same.
        let _ = self.reply.send(lost.map_or(self.result, Err));
    }
}

pub(super) struct Writer {
    pub conn: Connection,
    pub journal: JournalRoom,
    pub queue: mpsc::Receiver<Message>,
    pub head: watch::Sender<u64>,
    pub feed: Feed,
    /// Whether the last transaction was lost, so that a full disk is said once and not at every try.
    pub failing: bool,
}

impl Writer {
    pub(super) fn run(mut self) {
        self.journal.keep();
        while let Some(batch) = self.next_batch() {
            self.write(batch);
        }
        let folded = match self.journal.cut_off(&self.conn) {
            Ok(true) => Ok(()),
            Ok(false) => fold_beside(&self.conn),
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
                Some(Message::Job(job)) => batch.push(job),
                Some(Message::Jobs(jobs)) => batch.extend(jobs),
                // No transaction is open here. Whoever asked may have gone.
                Some(Message::Fold(reply)) => drop(reply.send(self.journal.cut_off(&self.conn))),
                Some(Message::Close) => self.queue.close(),
                None => break,
            }
        }
        if batch.is_empty() { None } else { Some(batch) }
    }

    /// Writes a batch and answers it. Those who follow go first: who has its answer sees its event.
    fn write(&mut self, mut batch: Vec<Box<dyn Job>>) {
        self.journal.before_batch(&self.conn);
        let lost = self.transaction(&mut batch).err();
        match &lost {
            None => self.publish(),
            Some(_) => self.rollback(),
        }
        match &lost {
            Some(StoreError::Full) => self.journal.did_not_fit(),
            Some(_) | None => self.journal.keep(),
        }
        match (&lost, mem::replace(&mut self.failing, lost.is_some())) {
            (Some(error), false) => error!(error = error as &dyn Error, "writes fail"),
            (None, true) => info!("writes succeed again"),
            (Some(_), true) | (None, false) => {}
        }
        for job in batch {
            job.answer(lost.clone());
        }
    }

    fn transaction(&self, batch: &mut [Box<dyn Job>]) -> Result<()> {
        self.say("BEGIN IMMEDIATE")?;
        for job in batch.iter_mut() {
            self.run_one(job.as_mut())?;
        }
        for job in batch.iter() {
            failpoint::hit_job(job.name(), "before_commit");
        }
        self.say("COMMIT")?;
        for job in batch.iter() {
            failpoint::hit_job(job.name(), "after_commit");
        }
        Ok(())
    }

    /// Fails only when the whole transaction is gone with it.
    fn run_one(&self, job: &mut dyn Job) -> Result<()> {
        self.say("SAVEPOINT job")?;
        match job.run(&self.conn) {
            Ok(()) => self.say("RELEASE job"),
            // Some errors, a full disk among them, make SQLite roll everything back at once.
            Err(error) if self.conn.is_autocommit() => Err(error),
            Err(_) => {
                self.say("ROLLBACK TO job")?;
                self.say("RELEASE job")
            }
        }
    }

    fn rollback(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = self.say("ROLLBACK")
        {
            error!(%error, "could not roll back");
        }
    }

    fn say(&self, sql: &'static str) -> Result<()> {
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
        match self.feed.wanted() {
            Some(published) => self.feed_from(published, seq),
            None => self.feed.skip(seq),
        }
        self.head.send_replace(seq);
    }

    /// Gives what was committed to those who follow.
    fn feed_from(&self, mut published: u64, seq: u64) {
        while published < seq {
            match log::read(&self.conn, &EventFilter::default(), published) {
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
