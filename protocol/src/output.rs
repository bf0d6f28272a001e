//! Output of a job on the wire: chunks with their position in the log. No byte is ever altered.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    Stdout,
    Stderr,
    /// Output of a pseudo-terminal, which mixes both.
    Pty,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    #[default]
    Utf8,
    Base64,
}

impl Encoding {
    fn is_utf8(&self) -> bool {
        *self == Self::Utf8
    }
}

/// Bytes in JSON: text where they are UTF-8, else base64. Never lossy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Payload {
    pub data: String,
    #[serde(default, skip_serializing_if = "Encoding::is_utf8")]
    pub encoding: Encoding,
}

/// A line of a log stream.
///
/// `cursor` is the position *after* the chunk: pass it as `after` to resume there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Chunk {
    Output {
        cursor: u64,
        stream: Stream,
        /// Position of the first byte within its own stream.
        offset: u64,
        #[serde(flatten)]
        payload: Payload,
    },
    /// Bytes that were not stored (full disk) or were trimmed during the stream.
    Gap { cursor: u64, lost: u64 },
    /// The last line of every response: the log is complete up to here.
    End {
        cursor: u64,
        /// Whether the job has ended, so that no output will follow.
        ended: bool,
    },
}
