//! HTTP client of hostd, over its Unix socket or TCP. Knows requests, responses and streams, not commands.

mod connect;
mod error;
mod http;
mod request;

pub use connect::{Target, data_dir_or_default};
pub use error::ClientError;
pub use http::{ApiResponse, Client, RequestBody};
pub use request::{ApiRequest, encode};
