//! A client of image registries: the distribution API of OCI over HTTP/1.1.
//!
//! Crates for registries connect wherever a registry, its token service or a redirect points. Here every connection passes
//! the address policy: `url` is judged by `reach`, connected by `transport`, redirected by `exchange`, authorized by
//! `authorized_exchange`, and used by `client` (manifests) and `blob` (layers).
//!
//! ```text
//!  client, blob ─▶ authorized_exchange ─▶ exchange ─▶ transport ─▶ OutboundConnector
//!                   │ challenge, token      │ redirects   │ reach (each host, each address)
//! ```

mod authorized_exchange;
mod blob;
mod challenge;
mod client;
mod content_range;
mod error;
mod exchange;
mod login;
mod partial_file;
mod reach;
mod retry;
mod token;
mod token_cache;
mod transport;
mod url;
mod waits;

pub use client::{RegistryClient, ResolvedManifest};
pub use error::RegistryError;
pub use login::RegistryLogin;

#[cfg(test)]
mod tests;
