//! The client of image registries.

use super::{
    authorized_exchange::{ImageRequest, Session, header_text},
    blob::{Download, blob_request},
    error::RegistryError,
    login::RegistryLogin,
    token_cache::{TokenCache, TokenKey},
    transport::Transport,
    waits::Waits,
};
use crate::{
    Descriptor, Digest, IMAGE_MANIFEST_TYPES, INDEX_TYPES, ImageReference, ImageVersion, Manifest,
    ManifestDocument, ManifestError, Platform, RegistryAllowlist, choose_platform,
    limits::{CONFIG_MAX_BYTES, INDEX_DEPTH_MAX, MANIFEST_MAX_BYTES},
};
use hostd_net::outbound::OutboundConnector;
use hyper::{
    HeaderMap, Method, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue},
};
use std::{path::Path, sync::Arc};

const CONTENT_DIGEST: &str = "docker-content-digest";

/// Pulls images from registries. Cheap to clone; clones share connections and tokens.
#[derive(Clone)]
pub struct RegistryClient {
    shared: Arc<Shared>,
}

struct Shared {
    transport: Transport,
    tokens: TokenCache,
    platform: Platform,
}

/// An image of a registry, for the platform of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedManifest {
    /// The digest of the manifest.
    pub digest: Digest,
    /// The digest that the reference means: of the index if there is one, else of the manifest. `check` returns the
    /// same while the tag is not moved.
    pub reference_digest: Digest,
    pub manifest: Manifest,
    /// The manifest as it was delivered.
    pub bytes: Vec<u8>,
}

/// A manifest or index as it was delivered.
struct Delivered {
    digest: Digest,
    document: ManifestDocument,
    bytes: Vec<u8>,
}

impl RegistryClient {
    pub fn new(connector: OutboundConnector, allowlist: RegistryAllowlist) -> Self {
        Self::with_waits(connector, allowlist, Waits::default())
    }

    pub(super) fn with_waits(
        connector: OutboundConnector,
        allowlist: RegistryAllowlist,
        waits: Waits,
    ) -> Self {
        let transport = Transport::new(connector, allowlist, waits);
        let shared = Shared { transport, tokens: TokenCache::default(), platform: Platform::host() };
        Self { shared: Arc::new(shared) }
    }

    /// Fetches the manifest of an image, for the platform of this host.
    pub async fn resolve(
        &self,
        image: &ImageReference,
        login: Option<&RegistryLogin>,
    ) -> Result<ResolvedManifest, RegistryError> {
        let session = self.session(image, login);
        let mut delivered = session.fetch_manifest(image.version(), None).await?;
        let reference_digest = delivered.digest.clone();
        for _ in 0..=INDEX_DEPTH_MAX {
            let chosen = match delivered.document {
                ManifestDocument::Image(manifest) => {
                    let Delivered { digest, bytes, .. } = delivered;
                    return Ok(ResolvedManifest { digest, reference_digest, manifest, bytes });
                }
                ManifestDocument::Index(entries) => choose_platform(&entries, &self.shared.platform)
                    .map_err(|why| session.errors().unusable(why))?
                    .clone(),
            };
            let version = ImageVersion::Digest(chosen.digest.clone());
            delivered = session.fetch_manifest(&version, Some(&chosen)).await?;
        }
        Err(session.errors().unexpected(format!("its index has more than {INDEX_DEPTH_MAX} levels")))
    }

    /// Returns the digest that a reference means now, of an index or a manifest, without fetching it. Refused like a
    /// pull would be.
    pub async fn check(
        &self,
        image: &ImageReference,
        login: Option<&RegistryLogin>,
    ) -> Result<Digest, RegistryError> {
        let session = self.session(image, login);
        let request = manifest_request(image, Method::HEAD, image.version());
        let (response, _) = session.fetch_document(&request, 0).await?;
        let head = response.head;
        let said = header_text(&head.headers, CONTENT_DIGEST).and_then(|text| Digest::parse(text).ok());
        match said {
            Some(found) if head.status == StatusCode::OK => {
                if let Some(expected) = image.digest() {
                    session.errors().check_digest(expected, found.clone())?;
                }
                Ok(found)
            }
            // Some registries say no digest, or do not know the method.
            Some(_) | None => Ok(session.fetch_manifest(image.version(), None).await?.digest),
        }
    }

    /// Fetches the configuration of an image, checked by digest.
    pub async fn fetch_config(
        &self,
        image: &ImageReference,
        config: &Descriptor,
        login: Option<&RegistryLogin>,
    ) -> Result<Vec<u8>, RegistryError> {
        let session = self.session(image, login);
        let request = blob_request(&session, &config.digest, HeaderMap::new());
        let (response, body) = session.fetch_document(&request, config.size.min(CONFIG_MAX_BYTES)).await?;
        if response.head.status != StatusCode::OK {
            return Err(session.unexpected_status(response.head.status));
        }
        session.check_document(config, body)
    }

    /// Downloads a blob to a file. What is in the file already is kept if it is the beginning of the blob. Reports the
    /// number of bytes that are there. After an error that is not about the blob itself, the file holds what came.
    #[expect(clippy::too_many_arguments, reason = "the same four as of the other verbs, and the file")]
    pub async fn fetch_blob(
        &self,
        image: &ImageReference,
        blob: &Descriptor,
        login: Option<&RegistryLogin>,
        to: &Path,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), RegistryError> {
        let session = self.session(image, login);
        Download { session: &session, blob, to, progress }.run().await
    }

    fn session<'a>(&'a self, image: &'a ImageReference, login: Option<&'a RegistryLogin>) -> Session<'a> {
        let Shared { transport, tokens, .. } = &*self.shared;
        Session { transport, tokens, image, login, key: TokenKey::of(image, login) }
    }
}

impl Session<'_> {
    /// Fetches a manifest or index, checked by the digest that is expected, or else by the one that the registry says.
    async fn fetch_manifest(
        &self,
        version: &ImageVersion,
        listed: Option<&Descriptor>,
    ) -> Result<Delivered, RegistryError> {
        let request = manifest_request(self.image, Method::GET, version);
        let (response, body) = self.fetch_document(&request, MANIFEST_MAX_BYTES).await?;
        let head = response.head;
        if head.status != StatusCode::OK {
            return Err(self.unexpected_status(head.status));
        }
        let errors = self.errors();
        let too_large =
            || errors.unusable(ManifestError::TooLarge { what: "manifest", max: MANIFEST_MAX_BYTES });
        let bytes = body.ok_or_else(too_large)?;
        let digest = Digest::of(&bytes);
        let expected = match version {
            ImageVersion::Digest(digest) => Some(digest.clone()),
            // A digest of another algorithm says nothing here.
            ImageVersion::Tag(_) => {
                header_text(&head.headers, CONTENT_DIGEST).and_then(|text| Digest::parse(text).ok())
            }
        };
        if let Some(expected) = expected {
            errors.check_digest(&expected, digest.clone())?;
        }
        if let Some(listed) = listed.filter(|listed| listed.size != bytes.len() as u64) {
            return Err(errors.wrong_size(&listed.digest, listed.size, bytes.len() as u64 > listed.size));
        }
        let media_type = header_text(&head.headers, CONTENT_TYPE);
        let document = ManifestDocument::parse(&bytes, media_type).map_err(|why| errors.unusable(why))?;
        Ok(Delivered { digest, document, bytes })
    }

    fn check_document(&self, expected: &Descriptor, body: Option<Vec<u8>>) -> Result<Vec<u8>, RegistryError> {
        let wrong_size = |longer| self.errors().wrong_size(&expected.digest, expected.size, longer);
        let bytes = body.ok_or_else(|| wrong_size(true))?;
        if (bytes.len() as u64) < expected.size {
            return Err(wrong_size(false));
        }
        self.errors().check_digest(&expected.digest, Digest::of(&bytes))?;
        Ok(bytes)
    }

    fn unexpected_status(&self, status: StatusCode) -> RegistryError {
        self.errors().unexpected(format!("it answered {}", status.as_u16()))
    }
}

fn manifest_request(image: &ImageReference, method: Method, version: &ImageVersion) -> ImageRequest {
    let types = [INDEX_TYPES, IMAGE_MANIFEST_TYPES].concat().join(", ");
    let accept = HeaderValue::from_str(&types).expect("media types are valid in a header");
    ImageRequest {
        method,
        target: format!("/v2/{}/manifests/{version}", image.repository()),
        headers: HeaderMap::from_iter([(ACCEPT, accept)]),
        what: match version {
            ImageVersion::Tag(tag) => format!("the tag {tag}"),
            ImageVersion::Digest(digest) => format!("the digest {digest}"),
        },
    }
}
