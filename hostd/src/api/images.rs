//! Images of the host, for the operator: list, inspect, import, remove and collect them, and choose the default.

use super::{
    Api,
    call::Call,
    error::{CallError, CallResult},
    views::{self, ok},
};
use hostd_core::{limits, parse_duration_ms, rfc3339};
use hostd_drivers::{CollectedImages, DriverError, ImagePuller, ImageRecord, ImageStore, UnusedFor};
use hostd_images::ImageReference;
use hyper::StatusCode;
use protocol::api::{
    ApiErrorCode, DefaultImage, Image, ImageCollection, ImageDetails, ImageSource, Page, SandboxId,
};
use serde::Deserialize;
use std::path::PathBuf;
use tokio::task::spawn_blocking;
use tracing::warn;
use utoipa::ToSchema;

/// The image that every host has.
const HOST: &str = "host";

/// The image store of this host.
#[derive(Clone)]
pub enum ImageBackend {
    /// No driver of this host stores images.
    Absent,
    /// In the data directory, shared by all drivers. Without a puller, the engine pulls its images itself.
    Present(Box<PresentImages>),
}

/// The store, and who fills it.
#[derive(Clone)]
pub struct PresentImages {
    images: ImageStore,
    puller: Option<ImagePuller>,
}

impl ImageBackend {
    pub fn new(images: ImageStore) -> Self {
        Self::Present(Box::new(PresentImages { images, puller: None }))
    }

    pub fn with_puller(images: ImageStore, puller: ImagePuller) -> Self {
        Self::Present(Box::new(PresentImages { images, puller: Some(puller) }))
    }

    fn store(&self) -> Option<&ImageStore> {
        match self {
            Self::Absent => None,
            Self::Present(present) => Some(&present.images),
        }
    }

    pub(super) fn puller(&self) -> Option<&ImagePuller> {
        match self {
            Self::Absent => None,
            Self::Present(present) => present.puller.as_ref(),
        }
    }

    /// Removes images that are not used; a host without a puller has none to remove.
    pub async fn collect(&self, unused: UnusedFor) -> Result<CollectedImages, DriverError> {
        let (Some(images), Some(_)) = (self.store().cloned(), self.puller()) else {
            return Ok(CollectedImages::default());
        };
        let done = spawn_blocking(move || images.collect(unused, true)).await;
        done.unwrap_or_else(|panic| Err(DriverError::Failed { message: panic.to_string(), output: vec![] }))
    }

    /// Runs blocking work: images are files.
    pub(super) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ImageStore) -> Result<T, DriverError> + Send + 'static,
    ) -> Result<T, CallError> {
        let absent = || CallError::new(ApiErrorCode::Unsupported, "no driver of this host stores images");
        let images = self.store().ok_or_else(absent)?.clone();
        let done = spawn_blocking(move || work(&images)).await;
        Ok(done.map_err(|panic| CallError::internal(&panic))??)
    }
}

impl Api {
    /// The image of sandboxes that name none: the configured one, else the one that the operator chose.
    pub(super) fn default_image(&self) -> String {
        let chosen = self.settings.images.store().and_then(ImageStore::default_image);
        chosen.filter(|_| !self.is_image_configured()).unwrap_or_else(|| self.defaults.image.clone())
    }

    fn is_image_configured(&self) -> bool {
        self.defaults.image != HOST
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
    let record = call.api.settings.images.run_blocking(move |images| images.import(&name, &path)).await?;
    Ok(views::json(StatusCode::CREATED, &view(&call.api, &record)))
}

pub async fn list(call: Call) -> CallResult {
    let found = call.api.settings.images.run_blocking(ImageStore::list).await?;
    let items = found.iter().map(|record| view(&call.api, record)).collect();
    Ok(ok(&Page { items, next: None }))
}

pub async fn inspect(call: Call) -> CallResult {
    let name = call.param("name")?.to_owned();
    let found = call.api.settings.images.run_blocking(move |images| Ok(images.record(&name))).await?;
    let record = found.ok_or_else(CallError::not_found)?;
    let config = record.layered.as_ref().map(|layered| layered.config.clone()).unwrap_or_default();
    Ok(ok(&ImageDetails {
        image: view(&call.api, &record),
        env: config.env,
        user: config.user,
        working_dir: config.working_dir,
        labels: config.labels,
        volumes: config.volumes,
        layer_digests: config.diff_ids.iter().map(ToString::to_string).collect(),
        sandboxes: users(&call.api, &record.name).await?,
    }))
}

pub async fn remove(call: Call) -> CallResult {
    let given = call.param("name")?.to_owned();
    let found = call.api.settings.images.run_blocking(move |images| Ok(images.record(&given))).await?;
    let name = found.ok_or_else(CallError::not_found)?.name;
    if is_named(&call.api.default_image(), &name) {
        let message = "sandboxes that name no image get this one; choose another default first";
        return Err(CallError::new(ApiErrorCode::Conflict, message));
    }
    if let Some(user) = users(&call.api, &name).await?.first() {
        let message = format!("sandbox {user} uses this image; destroy the sandbox first");
        return Err(CallError::new(ApiErrorCode::Conflict, message));
    }
    let removed = move |images: &ImageStore| {
        images.remove(&name)?;
        images.discard_unused_layers()
    };
    let trash = call.api.settings.images.run_blocking(removed).await?;
    // Not waited for, also when hostd ends: the next one empties the trash.
    spawn_blocking(move || {
        if let Err(error) = trash.empty() {
            warn!(%error, "could not remove the files of an image");
        }
    });
    Ok(views::no_content())
}

pub async fn collect(call: Call) -> CallResult {
    let apply = call.query.flag("apply", false)?;
    let unused_ms = match call.query.text("unused_for") {
        Some("0") => 0,
        Some(text) => parse_duration_ms(text).map_err(|why| CallError::invalid("unused_for", why))?,
        None => limits::IMAGE_UNUSED_DEFAULT_MS,
    };
    let collect = move |images: &ImageStore| images.collect(UnusedFor { ms: unused_ms }, apply);
    let found = call.api.settings.images.run_blocking(collect).await?;
    let (images, layers, bytes) = (found.images, found.layers, found.bytes);
    Ok(ok(&ImageCollection { applied: apply, images, layers, bytes }))
}

pub async fn default_image(call: Call) -> CallResult {
    Ok(ok(&DefaultImage { image: call.api.default_image() }))
}

pub async fn set_default(call: Call) -> CallResult {
    let DefaultImage { image } = call.json()?;
    let api = &call.api;
    if api.is_image_configured() {
        let message = "SLIPWAY_IMAGE of the configuration decides: change it there, and start hostd again";
        return Err(CallError::new(ApiErrorCode::Conflict, message));
    }
    let chosen = image.clone();
    let set = move |images: &ImageStore| {
        if chosen != HOST && images.record(&chosen).is_none() {
            return Err(DriverError::ImageMissing { name: chosen, why: None });
        }
        images.set_default_image(Some(&chosen))
    };
    api.settings.images.run_blocking(set).await?;
    Ok(ok(&DefaultImage { image }))
}

pub async fn unset_default(call: Call) -> CallResult {
    call.api.settings.images.run_blocking(|images| images.set_default_image(None)).await?;
    Ok(views::no_content())
}

/// Returns the live sandboxes that name an image.
async fn users(api: &Api, name: &str) -> Result<Vec<SandboxId>, CallError> {
    let live = api.store.live_sandboxes().await?;
    let users = live.iter().filter(|record| is_named(&record.blueprint.image, name));
    Ok(users.map(|record| record.id).collect())
}

/// Whether the text of a spec means the image of this name: `alpine` is `alpine:latest`.
fn is_named(given: &str, name: &str) -> bool {
    given == name || ImageReference::parse(given).is_ok_and(|reference| reference.full() == name)
}

pub(super) fn view(api: &Api, record: &ImageRecord) -> Image {
    let used_ms = api.settings.images.store().map_or(record.created_ms, |images| images.used_ms(record));
    let layered = record.layered.as_ref();
    Image {
        name: record.name.clone(),
        source: if record.pulled.is_some() { ImageSource::Pulled } else { ImageSource::Imported },
        created_at: rfc3339(record.created_ms),
        used_at: rfc3339(used_ms),
        size_bytes: record.size_bytes,
        layers: layered.map_or(0, |layered| layered.config.diff_ids.len() as u32),
        digest: layered.map(|layered| layered.digest.to_string()),
        reference: record.pulled.as_ref().map(|pulled| pulled.reference.clone()),
        is_default: is_named(&api.default_image(), &record.name),
    }
}
