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
