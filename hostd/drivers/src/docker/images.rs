//! Images for the engine. The image `host` and imported ones are imported into the engine once, under names
//! of ours; any other name is resolved by the engine and pulled when the engine does not have it.

mod engine_failure;
#[cfg(test)]
pub mod fixture;
mod image_requirements;
mod tar_stream;

use super::engine::{Engine, Image};
use crate::{
    DriverError, ProgressSink,
    local::{
        blueprint_checks::refused,
        images::{self as local, Flight, ImageError, PullSlots, SingleFlight, repeat_progress},
    },
};
use hostd_images::{ImageReference, RESERVED_PREFIXES, RegistryAllowlist};
use std::path::PathBuf;

pub use image_requirements::ImageRequirements;

/// An image that is present in the engine, ready for `create`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedImage {
    /// Name of the image in the engine.
    pub image: String,
    /// Id that the name resolved to.
    pub id: String,
    /// Host directories to bind read-only: source and destination, in mount order.
    pub binds: Vec<(PathBuf, PathBuf)>,
    pub requirements: ImageRequirements,
}

/// Where an image comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageSource {
    /// The local store: `host`, or imported.
    Store,
    /// The engine has the image, or pulls it.
    Engine(ImageReference),
}

/// An image that a tenant needs for a sandbox.
pub struct ImageRequest<'a> {
    pub image: &'a str,
    pub tenant: &'a str,
    pub progress: &'a ProgressSink,
}

#[derive(Clone)]
pub struct EngineImages {
    engine: Engine,
    store: local::ImageStore,
    single_flight: SingleFlight,
    registry_allowlist: RegistryAllowlist,
    pull_slots: PullSlots,
}

impl EngineImages {
    pub fn new(engine: Engine, store: local::ImageStore, registry_allowlist: RegistryAllowlist) -> Self {
        Self {
            engine,
            store,
            single_flight: SingleFlight::default(),
            registry_allowlist,
            pull_slots: PullSlots::new(),
        }
    }

    /// The local image store: to import, list and remove images.
    pub fn store(&self) -> &local::ImageStore {
        &self.store
    }

    /// Resolves where an image comes from. Does not call the engine: whether a pull succeeds shows when it
    /// runs.
    pub fn find(&self, name: &str) -> Result<ImageSource, DriverError> {
        if self.store.has(name) {
            return Ok(ImageSource::Store);
        }
        local::parse_reference(name).map(ImageSource::Engine)
    }

    /// Makes the image available in the engine. Concurrent requests for one image share one import or pull.
    pub async fn prepare(&self, request: &ImageRequest<'_>) -> Result<PreparedImage, DriverError> {
        match self.find(request.image)? {
            ImageSource::Store => self.import_to_engine(request.image, request.progress).await,
            ImageSource::Engine(known) => self.fetch(request, &known).await,
        }
    }

    async fn import_to_engine(
        &self,
        name: &str,
        progress: &ProgressSink,
    ) -> Result<PreparedImage, DriverError> {
        let (rootfs, tag) = (self.store.find(name)?, self.store.version_tag(name)?);
        let repository = repository(name);
        let image = format!("{repository}:{tag}");
        let mut found = self.engine.image(&image).await?;
        if found.is_none() {
            let imported = match self.single_flight.join(&image, progress).await {
                Flight::Done(result) => result,
                Flight::Leader(leader) => {
                    let what = format!("importing the image {name} into the container engine");
                    // The engine sends nothing while it stores the archive.
                    let imported = repeat_progress(&leader.progress, &what, |progress| {
                        let tar = tar_stream::tar_stream(rootfs.tree.clone(), what.clone(), progress);
                        self.engine.import(&repository, &tag, tar)
                    });
                    let imported = imported.await;
                    leader.end(imported.map_err(ImageError::of_import))
                }
            };
            imported.map_err(|failure| failure.of_name(name))?;
            found = self.engine.image(&image).await?;
        }
        prepared(name, image, found, rootfs.binds)
    }

    async fn fetch(
        &self,
        request: &ImageRequest<'_>,
        name: &ImageReference,
    ) -> Result<PreparedImage, DriverError> {
        let mut found = self.engine.image(name.full()).await?;
        if found.is_none() {
            let allowed = self.registry_allowlist.check(name.registry_host());
            allowed.map_err(|why| refused("image", why, &[]))?;
            let fetched = match self.single_flight.join(name.full(), request.progress).await {
                Flight::Done(result) => result,
                Flight::Leader(leader) => {
                    let pulled = self.pull(name.full(), request.tenant, &leader.progress).await;
                    leader.end(pulled)
                }
            };
            fetched.map_err(|failure| failure.of_name(request.image))?;
            found = self.engine.image(name.full()).await?;
        }
        prepared(request.image, name.full().to_owned(), found, self.store.agents().into_iter().collect())
    }

    /// Pulls an image. The engine client gives up a pull that is silent for too long.
    async fn pull(&self, name: &str, tenant: &str, progress: &ProgressSink) -> Result<(), ImageError> {
        let _slot = self.pull_slots.take(tenant, name, progress).await?;
        let what = format!("pulling {name}");
        let pulled = repeat_progress(progress, &what, async |progress: ProgressSink| {
            self.engine.pull(name, &|text| progress.report(text)).await
        });
        pulled.await.map_err(ImageError::of_pull)
    }
}

fn prepared(
    name: &str,
    image: String,
    found: Option<Image>,
    binds: Vec<(PathBuf, PathBuf)>,
) -> Result<PreparedImage, DriverError> {
    // The image may have been removed since.
    let found = found.ok_or_else(|| DriverError::ImageMissing { name: name.to_owned(), why: None })?;
    let requirements = ImageRequirements::of(&found)
        .map_err(|why| refused("image", format!("the image {name} cannot be used: {why}"), &[]))?;
    Ok(PreparedImage { image, id: found.id, binds, requirements })
}

/// Repository name of a local image in the engine.
fn repository(name: &str) -> String {
    let [host, imported] = RESERVED_PREFIXES;
    if name == local::HOST { host.to_owned() } else { format!("{imported}{name}") }
}

#[cfg(test)]
mod tests;
