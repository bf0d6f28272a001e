//! Why an image could not be pulled. No text contains a credential or a signed address: of what a server says, only
//! its status, its name and the names in its documents are shown.

use crate::{Digest, ImageReference, ManifestError};
use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The address policy refuses the registry, or a server that it points to.
    #[error("{repository} is not pulled from {registry}: {why}")]
    NotAllowed { registry: String, repository: String, why: String },
    #[error("{}", unauthorized(.registry, .repository, *.with_login))]
    Unauthorized { registry: String, repository: String, with_login: bool },
    #[error(
        "the registry {registry} denies access to {repository}: ask its owner for access, or use another login"
    )]
    Denied { registry: String, repository: String },
    #[error(
        "the registry {registry} has no {repository} with {what}: check the name, or push the image again"
    )]
    NotFound { registry: String, repository: String, what: String },
    /// A retry may succeed.
    #[error("the registry {registry} does not deliver {repository}: {why}; try again later")]
    Unavailable { registry: String, repository: String, why: String },
    /// There is no such registry, or its certificate is not trusted.
    #[error(
        "the registry {registry} cannot be reached for {repository}: {why}; check its name and its certificate"
    )]
    Unreachable { registry: String, repository: String, why: String },
    #[error("the image {repository} of the registry {registry} cannot be used: {why}")]
    Unusable { registry: String, repository: String, why: ManifestError },
    #[error(
        "the registry {registry} delivered {found} as {expected} of {repository}: try again, or push the image again"
    )]
    WrongDigest { registry: String, repository: String, expected: Digest, found: Digest },
    #[error(
        "the registry {registry} delivered {} than the {size} bytes of {digest} of {repository}: push the image again",
        if *.longer { "more" } else { "less" }
    )]
    WrongSize { registry: String, repository: String, digest: Digest, size: u64, longer: bool },
    #[error(
        "the registry {registry} gave a response about {repository} that is not understood: {why}; check that it is an image registry"
    )]
    Unexpected { registry: String, repository: String, why: String },
    #[error("could not write the blob to {}: {error}", path.display())]
    Disk { path: PathBuf, error: io::Error },
}

fn unauthorized(registry: &str, repository: &str, with_login: bool) -> String {
    match with_login {
        true => format!(
            "the registry {registry} does not accept the login for {repository}: check its user name and password"
        ),
        false => format!(
            "the registry {registry} wants a login for {repository}, or has no such repository: check the name, or give a login"
        ),
    }
}

/// Makes errors about one image.
#[derive(Debug, Clone, Copy)]
pub struct ErrorContext<'a> {
    pub image: &'a ImageReference,
}

impl ErrorContext<'_> {
    fn names(self) -> (String, String) {
        (self.image.registry_host().to_owned(), self.image.repository().to_owned())
    }

    pub fn not_allowed(self, why: String) -> RegistryError {
        let (registry, repository) = self.names();
        RegistryError::NotAllowed { registry, repository, why }
    }

    pub fn unauthorized(self, with_login: bool) -> RegistryError {
        let (registry, repository) = self.names();
        RegistryError::Unauthorized { registry, repository, with_login }
    }

    pub fn denied(self) -> RegistryError {
        let (registry, repository) = self.names();
        RegistryError::Denied { registry, repository }
    }

    pub fn not_found(self, what: String) -> RegistryError {
        let (registry, repository) = self.names();
        RegistryError::NotFound { registry, repository, what }
    }

    pub fn unavailable(self, why: String) -> RegistryError {
        let (registry, repository) = self.names();
        RegistryError::Unavailable { registry, repository, why }
    }

    pub fn unreachable(self, why: String) -> RegistryError {
        let (registry, repository) = self.names();
        RegistryError::Unreachable { registry, repository, why }
    }

    pub fn unusable(self, why: ManifestError) -> RegistryError {
        let (registry, repository) = self.names();
        RegistryError::Unusable { registry, repository, why }
    }

    pub fn unexpected(self, why: impl Into<String>) -> RegistryError {
        let (registry, repository) = self.names();
        RegistryError::Unexpected { registry, repository, why: why.into() }
    }

    /// Checks the digest of what was delivered.
    pub fn check_digest(self, expected: &Digest, found: Digest) -> Result<(), RegistryError> {
        if found == *expected {
            return Ok(());
        }
        let (registry, repository) = self.names();
        Err(RegistryError::WrongDigest { registry, repository, expected: expected.clone(), found })
    }

    pub fn wrong_size(self, digest: &Digest, size: u64, longer: bool) -> RegistryError {
        let (registry, repository) = self.names();
        RegistryError::WrongSize { registry, repository, digest: digest.clone(), size, longer }
    }
}
