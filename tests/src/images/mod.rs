//! Images that tests make, as files.

mod layout;

pub use layout::{ImageLayout, Layer};
