//! Limits of backups, with their units.

/// One part of the files of a sandbox or snapshot, which is held in memory.
pub const PART_BYTES: usize = 1 << 20;
/// The lists at the beginning and at the end.
pub const LIST_MAX_BYTES: u64 = 64 << 20;
/// A key, and a file of the configuration.
pub const KEY_MAX_BYTES: u64 = 4096;
pub const SETTING_MAX_BYTES: u64 = 1 << 20;
/// Base 2 logarithm of the work to turn a passphrase into a key, which takes 64 MiB of memory; and the most that a file
/// may ask for, as other programs write it.
pub const PASSPHRASE_WORK_LOG2: u8 = 16;
pub const PASSPHRASE_WORK_MAX_LOG2: u8 = 20;
/// Files that could not be read and that a response names.
pub const SKIPPED_NAMED_MAX: usize = 20;
/// A file with a passphrase or with identities.
pub const SECRET_FILE_MAX_BYTES: u64 = 64 << 10;
/// How long a sandbox may take to become settled before its files are read, and how often that is tried.
pub const SETTLE_MAX_MS: u64 = 60_000;
pub const CAPTURES_MAX: u32 = 3;
/// Space that a restore leaves free.
pub const RESTORE_FREE_MIN_BYTES: u64 = 1 << 20;
