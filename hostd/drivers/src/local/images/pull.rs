//! Pulls images from registries into the store, for sandboxes that need them and for the operator.
//!
//! ```text
//!  reference ─▶ stored? ──yes─▶ pulled with a login? ─▶ ask the registry with the login of this tenant
//!                 │ no
//!                 ▼
//!  manifest ─▶ download layers (several at once) ─▶ unpack one after the other ─▶ sync, rename ─▶ record
//! ```
//!
//! Concurrent pulls of one tenant are one. A download that breaks off is resumed by the next pull.

use super::{
    Flight, ImageError, ImageRecord, PullSlots, SingleFlight,
    layer_store::NewLayer,
    record::PulledFrom,
    repeat_progress,
    store::{ImageStore, now_ms, parse_reference},
};
use crate::{
    DriverError, ProgressSink,
    local::{blueprint_checks::refused, limits::LAYER_DOWNLOADS_MAX},
};
use futures_util::future::BoxFuture;
use hostd_images::{
    Descriptor, Digest, ImageConfig, ImageReference, RegistryAllowlist, RegistryClient, RegistryError,
    RegistryLogin, ResolvedManifest, TreeQuota,
};
use std::{
    fs::File,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{
    sync::{Mutex, Semaphore},
    task::{JoinSet, spawn_blocking},
};

/// Finds the login of a tenant at a registry, given as `host` or `host:port`. The error is for people.
pub type LoginLookup =
    Arc<dyn Fn(String, String) -> BoxFuture<'static, Result<Option<RegistryLogin>, String>> + Send + Sync>;

/// An image that a tenant needs.
pub struct PullRequest<'a> {
    pub reference: &'a ImageReference,
    pub tenant: &'a str,
    pub progress: &'a ProgressSink,
    /// Told how much of the image is there.
    pub counters: &'a Arc<PullProgress>,
    /// A name for all tenants; otherwise the image is stored under its reference.
    pub name: Option<&'a str>,
}

/// How much of an image was downloaded.
#[derive(Debug, Default)]
pub struct PullProgress {
    pub downloaded_bytes: AtomicU64,
    /// Compressed size of the layers that are missing; 0 until the manifest is known.
    pub total_bytes: AtomicU64,
}

/// Pulls images. Clones share everything.
#[derive(Clone)]
pub struct ImagePuller {
    store: ImageStore,
    client: RegistryClient,
    allowlist: RegistryAllowlist,
    logins: LoginLookup,
    flights: SingleFlight,
    slots: PullSlots,
}

impl ImagePuller {
    pub fn new(
        store: ImageStore,
        client: RegistryClient,
        allowlist: RegistryAllowlist,
        logins: LoginLookup,
    ) -> Self {
        Self { store, client, allowlist, logins, flights: SingleFlight::default(), slots: PullSlots::new() }
    }

    /// Parses a name that the store does not have, and checks that its registry may be asked. Makes no request.
    pub fn check(&self, name: &str) -> Result<ImageReference, DriverError> {
        let reference = parse_reference(name)?;
        self.allowlist.check(reference.registry_host()).map_err(|why| refused("image", why, &[]))?;
        Ok(reference)
    }

    /// Returns an image that this tenant may use; pulls it if the store does not have it.
    pub async fn ensure(&self, request: &PullRequest<'_>) -> Result<ImageRecord, DriverError> {
        let name = request.reference.full();
        if let Some(record) = self.store.find_pulled(request.reference) {
            let authorized = self.authorize(&record, request).await;
            return authorized.map(|()| record).map_err(|error| error.of_name(name));
        }
        // The login differs from tenant to tenant.
        let flight = format!("{} {name}", request.tenant);
        let pulled = match self.flights.join(&flight, request.progress).await {
            Flight::Done(result) => result,
            Flight::Leader(leader) => {
                let pulled = self.pull_with_slot(request, &leader.progress).await;
                leader.end(pulled.map(drop))
            }
        };
        pulled.map_err(|error| error.of_name(name))?;
        let missing = || DriverError::ImageMissing { name: name.to_owned(), why: None };
        self.store.find_pulled(request.reference).ok_or_else(missing)
    }

    /// Pulls an image, also if it is there: its tag may mean another version by now.
    pub async fn pull(&self, request: &PullRequest<'_>) -> Result<ImageRecord, DriverError> {
        let pulled = self.pull_with_slot(request, request.progress).await;
        pulled.map_err(|error| error.of_name(request.reference.full()))
    }

    /// Checks that a tenant may use an image whose pull had a login: asks the registry with its own login.
    async fn authorize(&self, record: &ImageRecord, request: &PullRequest<'_>) -> Result<(), ImageError> {
        let (Some(pulled), Some(layered)) = (&record.pulled, &record.layered) else { return Ok(()) };
        if !pulled.with_login {
            return Ok(());
        }
        let exact = request.reference.with_digest(&layered.digest);
        let login = self.login(request).await?;
        self.client.check(&exact, login.as_ref()).await.map(drop).map_err(failure)
    }

    async fn login(&self, request: &PullRequest<'_>) -> Result<Option<RegistryLogin>, ImageError> {
        let registry = request.reference.registry_host().to_ascii_lowercase();
        let found = (self.logins)(request.tenant.to_owned(), registry).await;
        found.map_err(|message| ImageError::Failed { message })
    }

    async fn pull_with_slot(
        &self,
        request: &PullRequest<'_>,
        progress: &ProgressSink,
    ) -> Result<ImageRecord, ImageError> {
        let name = request.reference.full();
        let _slot = self.slots.take(request.tenant, name, progress).await?;
        let what = format!("pulling {name}");
        repeat_progress(progress, &what, |progress| self.download_and_store(request, progress)).await
    }

    async fn download_and_store(
        &self,
        request: &PullRequest<'_>,
        progress: ProgressSink,
    ) -> Result<ImageRecord, ImageError> {
        let login = self.login(request).await?;
        let resolved = self.client.resolve(request.reference, login.as_ref()).await.map_err(failure)?;
        let config = &resolved.manifest.config;
        let config = self.client.fetch_config(request.reference, config, login.as_ref()).await;
        let config = ImageConfig::parse(&config.map_err(failure)?).and_then(|config| {
            config.check_platform(&hostd_images::Platform::host())?;
            resolved.manifest.check_config(&config).map(|()| config)
        });
        let config = config.map_err(|why| ImageError::Failed {
            message: format!("the image {} cannot be used: {why}", request.reference),
        })?;
        let pull = LayerPull {
            store: self.store.clone(),
            client: self.client.clone(),
            reference: request.reference.clone(),
            name: request.name.unwrap_or(request.reference.full()).to_owned(),
            login,
            progress,
            counters: Arc::clone(request.counters),
        };
        Arc::new(pull).run(&resolved, config).await
    }
}

/// The layers of one image on their way into the store.
struct LayerPull {
    store: ImageStore,
    client: RegistryClient,
    reference: ImageReference,
    /// The name that the image is stored under.
    name: String,
    login: Option<RegistryLogin>,
    progress: ProgressSink,
    counters: Arc<PullProgress>,
}

/// A layer that the store lacks.
struct WantedLayer {
    blob: Descriptor,
    diff_id: Digest,
}

/// What the layers of one pull share: places to download, and the size of the unpacked image.
#[derive(Clone)]
struct LayerTurns {
    downloads: Arc<Semaphore>,
    quota: Arc<Mutex<TreeQuota>>,
}

impl LayerPull {
    async fn run(
        self: &Arc<Self>,
        resolved: &ResolvedManifest,
        config: ImageConfig,
    ) -> Result<ImageRecord, ImageError> {
        let hold = self.store.layers.hold(config.diff_ids.clone());
        let wanted = self.missing(resolved, &config);
        let blobs: Vec<PathBuf> = wanted.iter().map(|layer| self.blob_path(&layer.blob)).collect();
        let fetched = self.fetch(wanted).await;
        if matches!(fetched, Err(ImageError::DiskFull)) {
            // Downloads that could be resumed would keep the disk full.
            remove_files(&blobs);
        }
        let new = fetched?;
        self.progress.report(&format!("pulling {}: storing its layers", self.reference));
        let (pull, digest) = (Arc::clone(self), resolved.digest.clone());
        blocking(move || {
            let record = pull.record(&new, digest, config)?;
            drop(hold);
            // Where this fails, the next collection removes them.
            remove_files(&blobs);
            Ok(record)
        })
        .await
    }

    /// Adds the layers to the store, and then the image.
    fn record(
        &self,
        new: &[NewLayer],
        digest: Digest,
        config: ImageConfig,
    ) -> Result<ImageRecord, ImageError> {
        self.store.layers.add(new).map_err(|error| disk(&error))?;
        let built = self.store.builder().build(digest, config).map_err(|error| disk(&error))?;
        let reference = self.reference.full().to_owned();
        let record = ImageRecord {
            name: self.name.clone(),
            created_ms: now_ms(),
            size_bytes: built.size_bytes,
            layered: Some(built.layered),
            pulled: Some(PulledFrom { reference, with_login: self.login.is_some() }),
        };
        let stored = self.store.add_pulled(&record);
        drop(built.hold);
        stored.map(|()| record).map_err(ImageError::of_driver)
    }

    /// Returns the layers that the store lacks, each once.
    fn missing(&self, resolved: &ResolvedManifest, config: &ImageConfig) -> Vec<WantedLayer> {
        let mut wanted: Vec<WantedLayer> = Vec::new();
        for (blob, diff_id) in resolved.manifest.layers.iter().zip(&config.diff_ids) {
            let is_wanted = wanted.iter().any(|layer| layer.diff_id == *diff_id);
            if !is_wanted && self.store.layers.find(diff_id).is_none() {
                wanted.push(WantedLayer { blob: blob.clone(), diff_id: diff_id.clone() });
            }
        }
        let total: u64 = wanted.iter().map(|layer| layer.blob.size).sum();
        self.counters.total_bytes.store(total, Ordering::Relaxed);
        wanted
    }

    /// Downloads several layers at once, and unpacks them one after the other. Dropping the future ends the downloads.
    async fn fetch(self: &Arc<Self>, wanted: Vec<WantedLayer>) -> Result<Vec<NewLayer>, ImageError> {
        let turns = LayerTurns {
            downloads: Arc::new(Semaphore::new(LAYER_DOWNLOADS_MAX)),
            quota: Arc::new(Mutex::new(TreeQuota::of_image())),
        };
        let mut layers = JoinSet::new();
        for layer in wanted {
            layers.spawn(Arc::clone(self).fetch_layer(layer, turns.clone()));
        }
        let mut new = Vec::new();
        while let Some(fetched) = layers.join_next().await {
            new.push(fetched.map_err(|panic| ImageError::Failed { message: panic.to_string() })??);
        }
        Ok(new)
    }

    async fn fetch_layer(
        self: Arc<Self>,
        layer: WantedLayer,
        turns: LayerTurns,
    ) -> Result<NewLayer, ImageError> {
        let path = self.blob_path(&layer.blob);
        {
            let _place = turns.downloads.acquire().await;
            let counted = AtomicU64::new(0);
            let count = |bytes: u64| self.report(&counted, bytes);
            let fetched =
                self.client.fetch_blob(&self.reference, &layer.blob, self.login.as_ref(), &path, &count);
            fetched.await.map_err(failure)?;
        }
        let (layers, mut quota) = (self.store.layers.clone(), turns.quota.lock_owned().await);
        blocking(move || {
            let blob = File::open(&path).map_err(|error| disk(&error))?;
            layers.unpack(&layer.diff_id, blob, &mut quota).map_err(|error| disk(&error))
        })
        .await
    }

    /// Reports how many bytes of a layer are there; fewer than before where its download began anew.
    fn report(&self, counted: &AtomicU64, bytes: u64) {
        let before = counted.swap(bytes, Ordering::Relaxed);
        let all = &self.counters.downloaded_bytes;
        let done = all
            .fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed)
            .wrapping_add(bytes.wrapping_sub(before));
        let total = self.counters.total_bytes.load(Ordering::Relaxed);
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let (done, total) = (megabytes(done), megabytes(total));
        self.progress.report(&format!("pulling {}: {done:.1} of {total:.1} MB", self.reference));
    }

    fn blob_path(&self, blob: &Descriptor) -> PathBuf {
        self.store.layout.blobs().join(blob.digest.hex())
    }
}

fn remove_files(paths: &[PathBuf]) {
    for path in paths {
        let _ = std::fs::remove_file(path);
    }
}

/// Runs blocking work, which completes even if the caller is cancelled.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ImageError> + Send + 'static,
) -> Result<T, ImageError> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|panic| Err(ImageError::Failed { message: panic.to_string() }))
}

/// Classifies an error of unpacking or storing.
fn disk(error: &io::Error) -> ImageError {
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        return ImageError::DiskFull;
    }
    ImageError::Failed { message: format!("could not store the image: {error}") }
}

/// Classifies an error of a registry.
fn failure(error: RegistryError) -> ImageError {
    match error {
        // A registry that does not exist stays so.
        RegistryError::Unauthorized { .. }
        | RegistryError::Denied { .. }
        | RegistryError::NotFound { .. }
        | RegistryError::Unreachable { .. } => ImageError::Missing { why: error.to_string() },
        RegistryError::Unavailable { .. } => ImageError::Unavailable { message: error.to_string() },
        RegistryError::Disk { error, .. } => disk(&error),
        RegistryError::NotAllowed { .. }
        | RegistryError::Unusable { .. }
        | RegistryError::WrongDigest { .. }
        | RegistryError::WrongSize { .. }
        | RegistryError::Unexpected { .. } => ImageError::Failed { message: error.to_string() },
    }
}
