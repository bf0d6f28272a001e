//! Images for the engine. `host` and imported ones are given to it once, under names of ours; any other
//! name is the engine's, and fetched when it does not have it.

mod alive;
mod demands;
mod failure;
mod feed;
#[cfg(test)]
pub mod fixture;
mod flight;
mod name;
mod registries;
mod slots;

use super::engine::{Engine, Image};
use crate::driver::{
    DriverError, ProgressSink,
    local::{images as local, request::refused},
};
use alive::telling;
use failure::Failure;
use flight::{Flights, Turn};
use name::Name;
use slots::Slots;
use std::path::PathBuf;

pub use demands::Demands;
pub use registries::Registries;

/// What a container is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// As the engine knows it,
    pub image: String,
    /// and what it means by that now.
    pub id: String,
    /// Directories of the host to be put into it, read-only: from, to, in the order of mounting.
    pub binds: Vec<(PathBuf, PathBuf)>,
    pub demands: Demands,
}

/// Where an image comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Here: `host`, or imported.
    Here,
    /// The engine has it, or fetches it.
    Engine(Name),
}

/// Who wants which image.
pub struct Wish<'a> {
    pub image: &'a str,
    pub tenant: &'a str,
    pub progress: &'a ProgressSink,
}

#[derive(Clone)]
pub struct Images {
    engine: Engine,
    here: local::Images,
    flights: Flights,
    registries: Registries,
    slots: Slots,
}

impl Images {
    pub fn new(engine: Engine, here: local::Images, registries: Registries) -> Self {
        Self { engine, here, flights: Flights::default(), registries, slots: Slots::new() }
    }

    /// Those that are kept here: to import, list and remove them.
    pub fn here(&self) -> &local::Images {
        &self.here
    }

    /// Where the image would come from. Nothing is made, and nobody is asked: whether an engine can fetch
    /// what it does not have is seen when it does.
    pub fn find(&self, name: &str) -> Result<Source, DriverError> {
        if self.here.has(name) {
            return Ok(Source::Here);
        }
        let name = Name::parse(name)
            .map_err(|why| refused("image", format!("{name:?} is no name of an image: {why}"), &[]))?;
        Ok(Source::Engine(name))
    }

    /// The image, in the engine. However many want the same one, it is fetched once at a time.
    pub async fn prepare(&self, wish: &Wish<'_>) -> Result<Prepared, DriverError> {
        match self.find(wish.image)? {
            Source::Here => self.give(wish.image, wish.progress).await,
            Source::Engine(known) => self.fetch(wish, &known).await,
        }
    }

    async fn give(&self, name: &str, progress: &ProgressSink) -> Result<Prepared, DriverError> {
        let (rootfs, tag) = (self.here.find(name)?, self.here.stamp(name)?);
        let repository = repository(name);
        let image = format!("{repository}:{tag}");
        let mut found = self.engine.image(&image).await?;
        if found.is_none() {
            let given = match self.flights.turn(&image, progress).await {
                Turn::Ended(result) => result,
                Turn::Mine(lead) => {
                    let what = format!("giving the image {name} to the container engine");
                    // It says nothing while it keeps what it was given.
                    let given = telling(&lead.progress, &what, |progress| {
                        let tar = feed::tar_of(rootfs.path.clone(), what.clone(), progress);
                        self.engine.import(&repository, &tag, tar)
                    });
                    let given = given.await;
                    lead.end(given.map_err(Failure::of_import))
                }
            };
            given.map_err(|failure| failure.of_name(name))?;
            found = self.engine.image(&image).await?;
        }
        prepared(name, image, found, rootfs.binds)
    }

    async fn fetch(&self, wish: &Wish<'_>, name: &Name) -> Result<Prepared, DriverError> {
        let mut found = self.engine.image(&name.full).await?;
        if found.is_none() {
            let listed = name.registry.as_deref().map_or(Ok(()), |registry| self.registries.check(registry));
            listed.map_err(|why| refused("image", why, &[]))?;
            let fetched = match self.flights.turn(&name.full, wish.progress).await {
                Turn::Ended(result) => result,
                Turn::Mine(lead) => {
                    let pulled = self.pull(&name.full, wish.tenant, &lead.progress).await;
                    lead.end(pulled)
                }
            };
            fetched.map_err(|failure| failure.of_name(wish.image))?;
            found = self.engine.image(&name.full).await?;
        }
        prepared(wish.image, name.full.clone(), found, self.here.agents().into_iter().collect())
    }

    /// Bounded by the engine's silence: a pull that says nothing for long is given up.
    async fn pull(&self, name: &str, tenant: &str, progress: &ProgressSink) -> Result<(), Failure> {
        let _slot = self.slots.take(tenant, name, progress).await?;
        let what = format!("pulling {name}");
        let pulled = telling(progress, &what, async |progress: ProgressSink| {
            self.engine.pull(name, &|text| progress.report(text)).await
        });
        pulled.await.map_err(Failure::of_pull)
    }
}

fn prepared(
    name: &str,
    image: String,
    found: Option<Image>,
    binds: Vec<(PathBuf, PathBuf)>,
) -> Result<Prepared, DriverError> {
    // Somebody may have removed it meanwhile.
    let found = found.ok_or_else(|| DriverError::ImageMissing { name: name.to_owned(), why: None })?;
    let demands = Demands::of(&found)
        .map_err(|why| refused("image", format!("the image {name} cannot be used: {why}"), &[]))?;
    Ok(Prepared { image, id: found.id, binds, demands })
}

/// What an image of ours is called by the engine.
fn repository(name: &str) -> String {
    let [host, imported] = name::OURS;
    if name == local::HOST { host.to_owned() } else { format!("{imported}{name}") }
}

#[cfg(test)]
mod tests;
