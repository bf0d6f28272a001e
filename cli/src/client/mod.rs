//! HTTP client of hostd, over its Unix socket, TCP or TLS. Knows requests, responses and streams, not commands.

mod connect;
mod error;
mod http;
mod request;
mod server_url;
mod tls;

pub use connect::{Target, data_dir_or_default};
pub use error::ClientError;
pub use http::{ApiResponse, Client, RequestBody};
pub use request::{ApiRequest, encode};
pub use server_url::{Scheme, ServerUrl};
pub use tls::{CertificateRefused, Fingerprint, TlsError, Trust};
