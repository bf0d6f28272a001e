//! Git with credentials that stay in hostd. A sandbox speaks git to hostd on its own loopback; hostd adds the
//! credential on the wire to one repository, for one operation. Where the repository is on an SSH server, hostd is the
//! client of that server.
//!
//! ```text
//!  git in the sandbox ──127.0.0.1:900/git/TOKEN/repo.git──▶ gateway ──▶ grants: which repository, which access
//!                                                             │  └──▶ egress rules of the sandbox, secrets
//!                                                             └──────▶ upstream: TLS, the credential ──▶ server
//!                    ──git://127.0.0.1:900/TOKEN/repo.git────▶ plain ──▶ ssh: host key, private key ──▶ SSH server
//! ```
//!
//! **Invariants:** a credential goes to the server that the name of its secret says; a redirect to another server is
//! refused; a push changes the one branch of its grant; a grant ends with the operation it was made for.

mod bodies;
mod failure;
mod gateway;
mod grants;
mod headers;
mod limits;
mod plain;
mod reach;
mod route;
mod ssh;
#[cfg(test)]
mod tests;
pub mod token_hook;
mod upstream;

pub use failure::GitFailure;
pub use gateway::{GitGateway, GitSettings};
pub use grants::{GitAccess, GitGrant, GrantError, GrantRequest};
pub use limits::OPERATION_MAX_MS;
pub use plain::is_plain_git;
pub use token_hook::TokenHookSettings;
