//! Images that tests make, as files.

mod layout;
pub mod registry;

pub use layout::{ImageLayout, Layer};
pub use registry::{Access, LocalRegistry};
