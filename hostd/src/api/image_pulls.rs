//! Pulls that the operator asks for. They are tasks of this hostd, known until newer ones take their place: what matters
//! of them, layers and partial downloads, is on disk, and a repeated pull goes on from there.

use super::{
    Api,
    call::Call,
    error::{CallError, CallResult},
    images, limits,
    views::{self, ok},
};
use hostd_drivers::{DriverError, ImagePuller, ProgressSink, PullProgress, PullRequest};
use hostd_images::ImageReference;
use hyper::StatusCode;
use protocol::api::{ApiError, ApiErrorCode, Image, ImagePull, ImagePullCreate, ImagePullState};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
};

/// The pulls of this hostd, oldest first.
#[derive(Default)]
pub struct ImagePulls {
    pulls: Mutex<VecDeque<Arc<PullJob>>>,
}

struct PullJob {
    id: String,
    create: ImagePullCreate,
    counters: Arc<PullProgress>,
    status: Mutex<PullStatus>,
}

enum PullStatus {
    Running { message: String },
    Done(Box<Image>),
    Failed(Box<ApiError>),
}

impl ImagePulls {
    /// Adds a pull, and forgets the oldest that has ended. Refused while as many run as are kept.
    fn add(&self, job: Arc<PullJob>) -> Result<(), CallError> {
        let mut pulls = lock(&self.pulls);
        if pulls.len() >= limits::IMAGE_PULLS_KEPT_MAX {
            let ended = pulls.iter().position(|job| !job.is_running());
            let too_many = || CallError::new(ApiErrorCode::TooMany, "too many pulls are running");
            pulls.remove(ended.ok_or_else(too_many)?);
        }
        pulls.push_back(job);
        Ok(())
    }

    fn find(&self, id: &str) -> Option<Arc<PullJob>> {
        lock(&self.pulls).iter().find(|job| job.id == id).cloned()
    }
}

impl PullJob {
    fn is_running(&self) -> bool {
        matches!(*lock(&self.status), PullStatus::Running { .. })
    }

    fn set(&self, status: PullStatus) {
        *lock(&self.status) = status;
    }

    fn view(&self) -> ImagePull {
        let (state, message, image, error) = match &*lock(&self.status) {
            PullStatus::Running { message } => (ImagePullState::Running, message.clone(), None, None),
            PullStatus::Done(image) => {
                (ImagePullState::Done, "the image is here".to_owned(), Some((**image).clone()), None)
            }
            PullStatus::Failed(error) => {
                (ImagePullState::Failed, error.message.clone(), None, Some((**error).clone()))
            }
        };
        ImagePull {
            id: self.id.clone(),
            reference: self.create.reference.clone(),
            name: self.create.name.clone(),
            state,
            message,
            downloaded_bytes: self.counters.downloaded_bytes.load(Ordering::Relaxed),
            total_bytes: self.counters.total_bytes.load(Ordering::Relaxed),
            image,
            error,
        }
    }
}

pub async fn create(call: Call) -> CallResult {
    let create: ImagePullCreate = call.json()?;
    let api = &call.api;
    let unsupported = || {
        let message =
            "the driver of this host does not pull images itself: its engine pulls them for sandboxes";
        CallError::new(ApiErrorCode::Unsupported, message)
    };
    let puller = api.settings.images.puller().ok_or_else(unsupported)?.clone();
    let reference = puller.check(&create.reference)?;
    if let Some(name) = create.name.clone() {
        api.settings.images.run_blocking(move |images| images.check_new(&name).map(drop)).await?;
    }
    api.fleet.check_disk_room()?;
    let message = format!("pulling {reference}");
    let job = Arc::new(PullJob {
        id: ulid::Ulid::generate().to_string().to_ascii_lowercase(),
        create,
        counters: Arc::default(),
        status: Mutex::new(PullStatus::Running { message }),
    });
    api.image_pulls.add(Arc::clone(&job))?;
    let tenant = call.caller.tenant.as_str().to_owned();
    let running = run(Arc::clone(api), Arc::clone(&job), puller, (reference, tenant));
    let closing = api.closing.clone();
    api.work.spawn(async move {
        // Downloads that are cut off are resumed by the next pull.
        let _ = closing.run_until_cancelled(Box::pin(running)).await;
    });
    Ok(views::json(StatusCode::ACCEPTED, &job.view()))
}

pub async fn get(call: Call) -> CallResult {
    let job = call.api.image_pulls.find(call.param("pull")?).ok_or_else(CallError::not_found)?;
    Ok(ok(&job.view()))
}

async fn run(
    api: Arc<Api>,
    job: Arc<PullJob>,
    puller: ImagePuller,
    (reference, tenant): (ImageReference, String),
) {
    let listener = Arc::downgrade(&job);
    let progress = ProgressSink::new(move |text| {
        if let Some(job) = listener.upgrade() {
            job.set(PullStatus::Running { message: text.to_owned() });
        }
    });
    let request = PullRequest {
        reference: &reference,
        tenant: &tenant,
        progress: &progress,
        counters: &job.counters,
        name: job.create.name.as_deref(),
    };
    let status = match puller.pull(&request).await {
        Ok(record) => PullStatus::Done(Box::new(images::view(&api, &record))),
        // The reason of a pull is about the registry or the image, and for whoever asked for it.
        Err(DriverError::Failed { message, .. }) => {
            PullStatus::Failed(Box::new(ApiError::new(ApiErrorCode::Unsupported, message)))
        }
        Err(DriverError::Unavailable { message }) => {
            PullStatus::Failed(Box::new(ApiError::new(ApiErrorCode::DriverUnavailable, message)))
        }
        Err(error) => PullStatus::Failed(CallError::from(error).error),
    };
    job.set(status);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves nothing half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: usize) -> Arc<PullJob> {
        Arc::new(PullJob {
            id: id.to_string(),
            create: ImagePullCreate { reference: "a".into(), name: None },
            counters: Arc::default(),
            status: Mutex::new(PullStatus::Running { message: String::new() }),
        })
    }

    #[test]
    fn ended_pulls_are_forgotten_and_running_ones_are_not() {
        let pulls = ImagePulls::default();
        for id in 0..limits::IMAGE_PULLS_KEPT_MAX {
            pulls.add(job(id)).expect("room");
        }
        assert!(pulls.add(job(1000)).is_err(), "all are running");
        let error = ApiError::new(ApiErrorCode::Internal, "it failed");
        pulls.find("3").expect("there").set(PullStatus::Failed(Box::new(error)));
        pulls.add(job(1001)).expect("room");
        assert!(pulls.find("3").is_none() && pulls.find("0").is_some() && pulls.find("1001").is_some());
    }
}
