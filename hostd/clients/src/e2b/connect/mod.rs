//! The Connect protocol, version 1, with JSON: calls with one message each way, streams of messages to the client, and
//! streams from it. It knows messages as JSON and nothing of what they mean.
//!
//! ```text
//! stream: frame*      frame: flags (1 byte), length (4 bytes, big-endian), message
//! the last frame to the client has the flag END_STREAM and says whether the call failed
//! ```

mod body;
mod call;
mod error;
mod frame;
pub mod limits;
mod read;
mod respond;

pub use body::Sink;
pub use call::{CallKind, CallOptions};
pub use error::{Code, ConnectError};
pub use read::{ClientStream, one_message, unary_message};
pub use respond::{client_stream, failed, server_stream, unary, unsupported_media_type};
