//! Backups of a host, and their restore into an empty data directory.
//!
//! ```text
//! age( zstd( tar ))     manifest.json ─▶ slipway.db ─▶ keys, configuration ─▶ parts of workspaces and snapshots ─▶ end.json
//!
//! backup   (hostd serves)   copy of the database ─▶ a snapshot of each sandbox, one at a time ─▶ pipe ─▶ response
//! restore  (no hostd)       read all of it ─▶ read it again, into DIR beside the target ─▶ rename
//! ```
//!
//! What is written is ciphertext from here on: no key leaves hostd in clear. `entry` has the names, `writer` and `reader`
//! the order and the hash, `encryption` the only use of age. **Invariant:** nothing of a backup appears at its
//! destination before all of it was read, decrypted and checked.

mod command;
mod create;
mod encryption;
mod entry;
mod error;
mod limits;
mod reader;
mod restore;
mod settings;
#[cfg(test)]
mod tests;
mod unpack;
mod writer;

pub use command::run as restore_command;
pub use create::{BackupParts, BackupPlan, RunningBackup, begin};
pub use encryption::SealWith;
pub use error::BackupError;
pub use limits::{CAPTURES_MAX, SETTLE_MAX_MS, SKIPPED_NAMED_MAX};
pub use settings::BackupSettings;
