//! Limits of the verbs.

/// Bytes of a path, without its NUL, that the kernel resolves.
pub const PATH_MAX_BYTES: usize = 4095;
/// Bytes of one name.
pub const NAME_MAX_BYTES: usize = 255;
/// Links that a verb resolves itself, at the end of a path it writes to.
pub const LINKS_MAX: usize = 16;
/// Tries of a path that changes while it is resolved.
pub const RESOLVE_TRIES: usize = 64;
/// Bytes read or sent at a time.
pub const CHUNK_BYTES: usize = 256 << 10;
/// Entries of a page.
pub const LIST_MAX: usize = 10_000;
/// Levels of directories that a walk descends.
pub const DEPTH_MAX: usize = 512;
/// How long a verb works on a tree: listing, copying, deleting, searching.
pub const TREE_MAX_MS: u64 = 120_000;
/// Entries that one copy creates.
pub const COPY_MAX_ENTRIES: u64 = 1_000_000;
/// Files of one `write-many`.
pub const MANY_MAX: usize = 1_000;
/// Bytes of the JSON of one `write-many`.
pub const MANY_MAX_BYTES: usize = 32 << 20;
/// Bytes read of an ignore file.
pub const IGNORE_FILE_MAX_BYTES: u64 = 256 << 10;
/// Names of a directory that are held at a time, in order; a larger directory is read several times.
pub const NAMES_HELD_MAX: usize = 16_384;
