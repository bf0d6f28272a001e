//! Named contexts: for each the URL of a hostd, how its certificate is verified, and a token. They are files of the
//! user:
//!
//! ```text
//! ~/.config/slipway/            0700
//!   contexts.toml               the contexts, and which is current; replaced as a whole
//!   contexts.lock               held by the command that changes them
//!   tokens/NAME.RANDOM          0600, one token; a new one has a new name, so that a token and its URL change at once
//! ```

mod directory;
mod error;
mod name;
mod private_file;
mod saved;
mod store;

pub use error::ContextsError;
pub use name::{ContextName, LOCAL};
pub use saved::{SavedContext, SavedContexts};
pub use store::{ContextStore, NewToken};
