//! HTTP to hostd, over its Unix socket or TCP. Knows requests, answers and streams; nothing of commands.

mod ask;
mod connect;
mod error;
mod http;

pub use ask::{Ask, encode};
pub use connect::{Target, data_dir_or_default};
pub use error::ClientError;
pub use http::{Answer, Client};
