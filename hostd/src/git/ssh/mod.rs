//! The SSH client for repositories on SSH servers. The private key is in hostd alone.
//!
//! ```text
//!  TCP (rules checked) ──▶ host key: known? ──▶ authentication by the key ──▶ one session: git-upload-pack 'PATH'
//!                             └─ unknown, changed: refused                        └─ relayed until either side ends
//! ```

mod client;
mod command;
mod credential;
mod cut_stream;
mod host_key;
mod relay;
mod server_check;

pub use client::open;
pub use command::SshCommand;
pub use credential::SshCredential;
pub use relay::relay;
