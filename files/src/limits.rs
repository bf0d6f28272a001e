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
/// Bytes of the paths and targets of a page, beyond which it ends.
pub const LIST_MAX_BYTES: usize = 4 << 20;
/// Entries of a page.
pub const LIST_MAX: usize = 10_000;
/// Levels of directories that a walk descends.
pub const DEPTH_MAX: usize = 512;
/// How long a verb works on a tree: listing, copying, deleting, searching.
pub const TREE_MAX_MS: u64 = 120_000;
/// Entries that one copy creates.
/// Names of kept files that an installation reports, and the tries to find one that is free.
pub const INSTALL_KEPT_MAX: usize = 100;
pub const INSTALL_NAME_TRIES: u32 = 100;
pub const COPY_MAX_ENTRIES: u64 = 1_000_000;
/// Files of one `write-many`.
pub const MANY_MAX: usize = 1_000;
/// Bytes of the JSON of one `write-many`.
pub const MANY_MAX_BYTES: usize = 32 << 20;
/// Bytes read of an ignore file.
pub const IGNORE_FILE_MAX_BYTES: u64 = 256 << 10;
/// Names of a directory that are held at a time, in order; a larger directory is read several times.
pub const NAMES_HELD_MAX: usize = 16_384;
/// Directories of one `watch`; those beyond are not watched, which is reported.
pub const WATCH_DIRECTORIES_MAX: usize = 65_536;
/// How long changes are collected before they are reported: several writes of a file are one.
pub const WATCH_BATCH_MS: u64 = 50;
/// Changes, and bytes of their paths, that are held at a time; more are reported at once.
pub const WATCH_BATCH_MAX: usize = 4_096;
pub const WATCH_BATCH_MAX_BYTES: usize = 1 << 20;
/// How long the second half of a move may take, and a directory to be found where it was moved to; and tries of that.
pub const WATCH_SETTLE_MS: u64 = 10;
pub const WATCH_SETTLE_TRIES: u32 = 20;
/// Silence after which a line is sent, so that a caller that is gone is noticed.
pub const WATCH_IDLE_MS: u64 = 15_000;
/// Interval between scans for directories that could not be watched; each is reported as an overflow.
pub const WATCH_INCOMPLETE_MS: u64 = 60_000;
/// Entries of one archive, packed or unpacked.
pub const ARCHIVE_MAX_ENTRIES: u64 = 1_000_000;
/// Bytes of the files of one archive, and of an archive that is uploaded.
pub const ARCHIVE_MAX_BYTES: u64 = 64 << 30;
/// Bytes that an archive unpacks to, whatever its own size; beyond them the ratio counts.
pub const ARCHIVE_FREE_BYTES: u64 = 1 << 30;
/// Bytes unpacked per byte received. What `pack` makes of zeros has 220.
pub const ARCHIVE_RATIO_MAX: u64 = 250;
/// Bytes of the headers of one entry: long names, extended attributes, maps of holes.
pub const ARCHIVE_HEADER_MAX_BYTES: u64 = 1 << 20;
/// How long one archive is worked on, without the time that its bytes are waited for.
pub const UNPACK_WORK_MAX_MS: u64 = 600_000;
/// An upload brings [`UPLOAD_PACE_MIN_BYTES`] in every such time that it is waited for.
pub const UPLOAD_PACE_MS: u64 = 60_000;
pub const UPLOAD_PACE_MIN_BYTES: u64 = 64 << 10;
/// Entries that are named where an archive's entries were left out.
pub const SKIPPED_MAX: usize = 100;
/// Bytes of the paths of directories whose mode and time are set when an archive is unpacked.
pub const DIRECTORIES_MAX_BYTES: usize = 8 << 20;
/// Bytes of the directory of a zip that is written; it is held until the end.
pub const ZIP_DIRECTORY_MAX_BYTES: usize = 32 << 20;
/// How long one search takes.
pub const SEARCH_MAX_MS: u64 = 20_000;
/// Matches of one search.
pub const SEARCH_MAX: usize = 2_000;
/// Matches in one file.
pub const SEARCH_FILE_MATCHES_MAX: u64 = 500;
/// Bytes of a file that is searched.
pub const SEARCH_FILE_MAX_BYTES: u64 = 256 << 20;
/// Bytes of a line that are searched.
pub const SEARCH_LINE_MAX_BYTES: usize = 128 << 10;
/// Bytes of the text and the paths of all matches.
pub const SEARCH_REPLY_MAX_BYTES: usize = 8 << 20;
/// Bytes of the text of one match.
pub const EXCERPT_MAX_BYTES: usize = 1 << 10;
/// Bytes of a pattern of a search.
pub const PATTERN_MAX_BYTES: usize = 4 << 10;
/// Characters of a regular expression with its counted repetitions written out. A search takes time by this number and
/// the bytes of a line: about two seconds for the largest of both, in which it is not ended.
pub const PATTERN_POSITIONS_MAX: u64 = 1_000;
/// Bytes of a compiled regular expression, and of the states it keeps while it searches.
pub const PATTERN_PROGRAM_MAX_BYTES: usize = 4 << 20;
pub const PATTERN_STATES_MAX_BYTES: usize = 1 << 20;
/// How long a peer on a stream may take to send, or to take, the next bytes.
pub const PEER_STALL_MAX_MS: u64 = 120_000;

/// Bytes of a file whose size is 0 but whose content is not, as of those of `/proc`: it is read before it is sent.
pub const UNSIZED_FILE_MAX_BYTES: u64 = 1 << 20;
