//! E2B's data plane: processes, files and PTYs of one sandbox, as its SDKs ask for them.
//!
//! ```text
//!  request ─▶ auth (which sandbox, whose) ─▶ process.Process · filesystem.Filesystem   Connect
//!                                            /files /health /metrics /envs             HTTP
//!                                                   └─ SandboxApi: calls about this sandbox only
//! ```

mod auth;
mod files;
mod filesystem;
mod http_error;
mod info;
mod limits;
mod paths;
mod process;
mod refuse;
mod sandbox_api;
mod serve;
mod state;
mod user;
mod wire;

pub use auth::Authorized;
pub use http_error::HttpError;
pub use sandbox_api::SandboxApi;
pub use serve::serve;
pub use state::EnvdState;
