//! Every limit of this crate, with its unit in its name.

/// Size of a manifest or an index.
pub const MANIFEST_MAX_BYTES: u64 = 4 << 20;
/// Size of the configuration of an image.
pub const CONFIG_MAX_BYTES: u64 = 4 << 20;
/// Size of one compressed layer.
pub const LAYER_MAX_BYTES: u64 = 64 << 30;
/// Layers of one image. Docker and overlayfs take about as many.
pub const LAYERS_MAX: usize = 128;
/// Images in one index.
pub const INDEX_ENTRIES_MAX: usize = 512;
/// Parts of the configuration of an image.
pub const IMAGE_ENV_MAX: usize = 1024;
pub const IMAGE_VOLUMES_MAX: usize = 64;
pub const IMAGE_LABELS_MAX_BYTES: usize = 64 << 10;
/// Platforms and media types that an error message names, and their length.
pub const NAMED_MAX: usize = 16;
pub const NAMED_MAX_CHARS: usize = 80;

// Archives, and the trees that they are unpacked to.

/// Unpacked size, number of entries and depth of an image, over all its layers.
pub const IMAGE_MAX_BYTES: u64 = 64 << 30;
pub const IMAGE_MAX_ENTRIES: u64 = 4_000_000;
pub const IMAGE_DEPTH_MAX: usize = 256;
/// Headers of one entry of an archive: long names, extended headers, maps of sparse files.
pub const ENTRY_HEADERS_MAX_BYTES: u64 = 1 << 20;
/// Headers of all entries of an archive, for each entry that is allowed.
pub const ENTRY_HEADERS_MEAN_MAX_BYTES: u64 = 2 << 10;
/// Path of an entry and each of its names: the limits of the kernel.
pub const ENTRY_PATH_MAX_BYTES: usize = 4095;
pub const ENTRY_NAME_MAX_BYTES: usize = 255;
/// Names and values of the extended attributes of one entry: ext4 stores them in one block.
pub const ENTRY_XATTRS_MAX_BYTES: usize = 3 << 10;
/// Paths of the directories of a layer, which are kept in memory until their times are set.
pub const DIRECTORY_PATHS_MAX_BYTES: usize = 64 << 20;
/// Bytes after the end of an archive: tar pads to whole records.
pub const ARCHIVE_PADDING_MAX_BYTES: u64 = 1 << 20;
/// Highest user and group id that a sandbox has.
pub const OWNER_ID_MAX: u32 = 65_535;
/// Window of a zstd frame, which is held in memory: the default limit of the `zstd` command.
pub const ZSTD_WINDOW_MAX_BYTES: u64 = 128 << 20;
/// Decompressed blocks between the thread that decompresses and the one that writes.
pub const READ_AHEAD_BLOCK_BYTES: usize = 256 << 10;
pub const READ_AHEAD_BLOCKS: usize = 8;
/// Bytes of an archive of files between two questions whether there is room for more.
pub const METER_STEP_BYTES: u64 = 4 << 20;
/// Length of a name of an archive in an error message.
pub const SHOWN_NAME_MAX_BYTES: usize = 200;

/// Members of an archive that holds an image with its layers. An archive with more is a root file system.
pub const ARCHIVE_MEMBERS_MAX: usize = 100_000;
/// Size of an archive after decompression.
pub const ARCHIVE_MAX_BYTES: u64 = 128 << 30;
/// Symlinks followed between members of an archive.
pub const ARCHIVE_LINKS_MAX: usize = 8;
/// Tags of an archive that are kept, and their length.
pub const ARCHIVE_TAGS_MAX: usize = 512;
pub const ARCHIVE_TAG_MAX_BYTES: usize = 512;

// Requests to registries.

/// Indexes inside of an index.
pub const INDEX_DEPTH_MAX: usize = 3;
/// Head of a response.
pub const HEAD_MAX_BYTES: usize = 64 << 10;
/// Address of a redirect or of a token service. Content networks sign theirs.
pub const URL_MAX_BYTES: usize = 16 << 10;
pub const REDIRECTS_MAX: usize = 5;
/// Headers with challenges of one response that are considered, and the schemes and parameters of each.
pub const CHALLENGES_MAX: usize = 8;
pub const CHALLENGE_WORDS_MAX: usize = 32;
/// Body of a response that is not wanted, such as an error: read only to keep the connection.
pub const UNWANTED_BODY_MAX_BYTES: u64 = 64 << 10;
/// Response of a token service.
pub const TOKEN_RESPONSE_MAX_BYTES: u64 = 256 << 10;
/// How long a token is used whose response does not say, how long at most, and how long before its end it is replaced.
pub const TOKEN_LIFE_DEFAULT_S: u64 = 60;
pub const TOKEN_LIFE_MAX_S: u64 = 3_600;
pub const TOKEN_MARGIN_S: u64 = 10;
/// Tokens that are kept.
pub const TOKENS_MAX: usize = 256;
/// Time from a request to the head of its response, and for the body of a document.
pub const RESPONSE_HEAD_MAX_MS: u64 = 30_000;
pub const DOCUMENT_MAX_MS: u64 = 60_000;
/// A blob of which fewer bytes arrive within this time counts as stalled.
pub const STALL_WINDOW_MS: u64 = 30_000;
pub const STALL_MIN_BYTES: u64 = 16 << 10;
/// Attempts at one blob, if each brings a part of it.
pub const BLOB_ATTEMPTS_MAX: u32 = 100;
/// Pieces of a blob that wait to be written. A piece has at most as many bytes as hyper reads at once, 400 KiB.
pub const PIECES_MAX: usize = 16;
/// Piece in which a partial file is read again.
pub const REHASH_PIECE_BYTES: usize = 256 << 10;
/// Attempts at a request, or at a blob, that bring nothing; the waits between them, and the longest wait that a registry may ask for.
pub const REQUEST_ATTEMPTS_MAX: u32 = 4;
pub const RETRY_FIRST_MS: u64 = 500;
pub const RETRY_WAIT_MAX_MS: u64 = 8_000;
pub const RETRY_AFTER_MAX_MS: u64 = 60_000;
/// Idle connections to one server, to all, and how long they are kept.
pub const POOLED_MAX: usize = 8;
pub const POOLED_ALL_MAX: usize = 32;
pub const POOLED_IDLE_MAX_MS: u64 = 30_000;
/// Servers of this machine that are remembered to speak HTTP without TLS.
pub const PLAIN_SERVERS_MAX: usize = 64;
