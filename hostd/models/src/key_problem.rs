//! Why the key of a provider cannot be used.

use super::limits;
use hostd_store::{SecretError, vault::VaultError};
use protocol::api::SecretRef;

#[derive(Debug, Clone, thiserror::Error)]
pub enum KeyProblem {
    #[error(transparent)]
    Sealed(#[from] VaultError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(
        "{reference} is not the key of a provider: it must be {least} to {most} visible ASCII characters without spaces",
        least = limits::KEY_MIN_BYTES,
        most = limits::KEY_MAX_BYTES
    )]
    Unfit { reference: SecretRef },
}
