//! Resources: files and logs of sandboxes, by `slipway://` addresses.

mod list;
mod read;
mod uri;

pub use list::{list, templates};
pub use read::read;
