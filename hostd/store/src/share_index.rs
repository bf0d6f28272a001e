//! Shares in memory, as the table `shares` has them. Access is decided without a query, and streams learn at once that
//! a share has ended. The writer updates the index after a commit, before its events are published: a stream of the
//! grantee has the event that tells of the share.

use super::{columns::ColumnReader, error::Result, query::all, shares};
use hostd_core::Share;
use protocol::api::SandboxId;
use rusqlite::{Connection, Row};
use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};
use tokio::sync::watch;

/// Clones are handles to the same index.
#[derive(Clone, Default)]
pub struct ShareIndex {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    by_sandbox: RwLock<HashMap<SandboxId, Arc<[Share]>>>,
    /// Counts changes.
    changes: watch::Sender<u64>,
}

impl ShareIndex {
    pub(super) fn load(conn: &Connection) -> Result<Self> {
        let row = |row: &Row<'_>| {
            let fields = ColumnReader { row, table: "shares", key: "sandbox" };
            Ok((fields.sandbox("sandbox")?, shares::parse(row)?.share))
        };
        let mut found: HashMap<SandboxId, Vec<Share>> = HashMap::new();
        for (sandbox, share) in all(conn, "SELECT * FROM shares ORDER BY sandbox, grantee", [], row)? {
            found.entry(sandbox).or_default().push(share);
        }
        let by_sandbox = found.into_iter().map(|(sandbox, shares)| (sandbox, shares.into())).collect();
        let inner = Inner { by_sandbox: RwLock::new(by_sandbox), changes: watch::Sender::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the shares of a sandbox.
    pub fn of(&self, sandbox: &SandboxId) -> Arc<[Share]> {
        let by_sandbox = self.inner.by_sandbox.read().unwrap_or_else(PoisonError::into_inner);
        by_sandbox.get(sandbox).cloned().unwrap_or_default()
    }

    /// Watches for changes of any share: when the number grows, shares may have ended.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    pub(super) fn set(&self, sandbox: SandboxId, shares: Vec<Share>) {
        let mut by_sandbox = self.inner.by_sandbox.write().unwrap_or_else(PoisonError::into_inner);
        if shares.is_empty() {
            by_sandbox.remove(&sandbox);
        } else {
            by_sandbox.insert(sandbox, shares.into());
        }
        drop(by_sandbox);
        self.inner.changes.send_modify(|changes| *changes += 1);
    }
}
