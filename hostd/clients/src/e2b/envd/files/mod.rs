//! `/files` over plain HTTP: content up and down, as streams.

mod compose;
mod download;
mod gunzip;
mod multipart;
mod part_headers;
mod parts;
mod signature;
mod upload;

pub use compose::compose;
pub use download::download;
pub use signature::{Operation, SignatureError, Signed};
pub use upload::{parse, upload};
