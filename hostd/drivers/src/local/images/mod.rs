//! Root file systems: `host`, which consists of the host's own programs, imported images, and pulled ones. Unpacked once,
//! shared by all sandboxes, never written to again.
//!
//! ```text
//! <data>/images/host/<version>/       generated
//! <data>/images/<name>/image.json     a named image; rootfs/ beside it if it has no layers
//! <data>/images/.pulled/<hash>/image.json   an image by its reference
//! <data>/images/.layers/<digest>/     an unpacked layer, shared (root only: it may have set-id programs)
//! <data>/images/.blobs/<digest>       a layer that is being downloaded
//! <data>/images/.merged               where the layers of an image are mounted as one tree, for one launch
//! <data>/oci/<id>/image.json          the image that a sandbox was launched with
//! ```

mod collect;
mod host_image;
mod image_error;
mod import_tree;
mod layer_store;
mod mount_points;
mod pin;
mod pull;
mod pull_slots;
mod record;
mod repeat_progress;
mod rootfs;
mod single_flight;
mod store;
pub mod volumes;

pub use collect::{CollectedImages, UnusedFor};
pub use host_image::HostRootfs;
pub use image_error::ImageError;
pub use mount_points::RUNTIMED_INSIDE;
pub use pull::{ImagePuller, LoginLookup, PullProgress, PullRequest};
pub use pull_slots::PullSlots;
pub use record::{ImageRecord, LayeredImage, PulledFrom};
pub use repeat_progress::repeat_progress;
pub use rootfs::{RootTree, Rootfs};
pub use single_flight::{Flight, SingleFlight};
pub use store::{HOST, ImageStore, parse_reference};
