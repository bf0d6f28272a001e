//! Output of a job on the wire: chunks that say where they belong and never alter a byte.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    Stdout,
    Stderr,
    /// Both, as a terminal mixes them.
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

/// Bytes as JSON can carry them: text where they are UTF-8, else base64. Never lossy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Payload {
    pub data: String,
    #[serde(default, skip_serializing_if = "Encoding::is_utf8")]
    pub encoding: Encoding,
}

/// One line of a followed log.
///
/// `cursor` is the position *after* the chunk: give it back as `after` to go on there.
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
    /// Bytes that were never stored (full disk) or were trimmed while being followed.
    Gap { cursor: u64, lost: u64 },
    /// The log is complete up to here; last line of every answer.
    End {
        cursor: u64,
        /// Whether the job has ended, so that nothing more will come.
        ended: bool,
    },
}
