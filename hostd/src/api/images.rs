//! Images of the host, for the operator.

use super::{
    call::Call,
    error::{CallError, CallResult},
    views::{self, ok},
};
use hostd_core::rfc3339;
use hostd_drivers::{DriverError, ImagePuller, ImageStore};
use hyper::StatusCode;
use protocol::api::{ApiErrorCode, Image, Page};
use serde::Deserialize;
use std::path::PathBuf;
use tokio::task::spawn_blocking;
use utoipa::ToSchema;

/// The image store of this host.
#[derive(Clone)]
pub enum ImageBackend {
    /// No driver of this host stores images.
    Absent,
    /// In the data directory, shared by all drivers. Without a puller, the engine pulls its images itself.
    Present { images: ImageStore, puller: Option<ImagePuller> },
}

impl ImageBackend {
    pub fn new(images: ImageStore) -> Self {
        Self::Present { images, puller: None }
    }

    pub fn with_puller(images: ImageStore, puller: ImagePuller) -> Self {
        Self::Present { images, puller: Some(puller) }
    }

    /// Runs blocking work: images are files.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ImageStore) -> Result<T, DriverError> + Send + 'static,
    ) -> Result<T, CallError> {
        let images = match self {
            Self::Present { images, .. } => images.clone(),
            Self::Absent => {
                return Err(CallError::new(
                    ApiErrorCode::Unsupported,
                    "no driver of this host stores images",
                ));
            }
        };
        let done = spawn_blocking(move || work(&images)).await;
        Ok(done.map_err(|panic| CallError::internal(&panic))??)
    }
}

/// `POST /v1/images`
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageImport {
    name: String,
    /// On the host: an OCI image layout or an archive of one, an archive of `docker save`, a root directory or a tarball of
    /// one. Archives may be compressed with gzip or zstd.
    path: String,
}

pub async fn import(call: Call) -> CallResult {
    let ImageImport { name, path } = call.json()?;
    let path = PathBuf::from(path);
    if !path.is_absolute() {
        return Err(CallError::invalid("path", "must be an absolute path on the host"));
    }
    call.api.fleet.check_disk_room()?;
    let listed = call.api.settings.images.run_blocking(move |images| images.import(&name, &path)).await?;
    let created_at = rfc3339(listed.created_ms);
    let image = Image { name: listed.name, created_at, size_bytes: listed.size_bytes };
    Ok(views::json(StatusCode::CREATED, &image))
}

pub async fn list(call: Call) -> CallResult {
    let found = call.api.settings.images.run_blocking(ImageStore::list).await?;
    let items = found.into_iter().map(|listed| Image {
        name: listed.name,
        created_at: rfc3339(listed.created_ms),
        size_bytes: listed.size_bytes,
    });
    Ok(ok(&Page { items: items.collect(), next: None }))
}

pub async fn remove(call: Call) -> CallResult {
    let name = call.param("name")?.to_owned();
    let live = call.api.store.live_sandboxes().await?;
    if let Some(user) = live.iter().find(|record| record.blueprint.image == name) {
        let message = format!("sandbox {} uses this image; destroy the sandbox first", user.id);
        return Err(CallError::new(ApiErrorCode::Conflict, message));
    }
    call.api.settings.images.run_blocking(move |images| images.remove(&name)).await.map_err(|failure| {
        // An invalid name cannot be the name of an image.
        if failure.error.code == ApiErrorCode::Unsupported { CallError::not_found() } else { failure }
    })?;
    Ok(views::no_content())
}
