//! Has a verb performed where the files are: by a thread of hostd for a workspace on this machine, else by a process
//! inside the sandbox.

use super::{
    super::{Api, call::Call, error::CallError, limits},
    failure, params, request_feed,
    response_data::{ResponseData, SandboxData, ThreadData},
    thread_exchange::{self, BodyPart, RequestSide},
};
use crate::reconcile::FleetError;
use axum::body::Body;
use files::{SandboxUser, UserGuard, Workspace};
use hostd_core::TransitionRefused;
use hostd_drivers::{
    OpenWorkspace, WorkspaceAccess,
    control::{ControlError, FilesConnectionError},
};
use hostd_net::keyed_limiter::{InUse, KeyedLimiter, KeyedPermit};
use hostd_store::SandboxRecord;
use protocol::{
    api::{ApiErrorCode, DiskLevel, SandboxId, SandboxStatus},
    files::{FilesFailure, FilesReply, FilesRequest, FilesTop},
};
use std::{io::PipeReader, os::fd::OwnedFd, time::Duration};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    time::timeout,
};

/// Released when the verb and its response have ended.
pub type FilesPermit = KeyedPermit<SandboxId>;

/// The threads of verbs: apart from those that the rest of hostd needs, and limited.
pub struct FilesBackend {
    in_use: KeyedLimiter<SandboxId>,
    threads: Option<Runtime>,
}

impl Default for FilesBackend {
    fn default() -> Self {
        let threads = Builder::new_current_thread()
            .max_blocking_threads(limits::FILES_VERBS_MAX + limits::FILE_WATCHES_MAX)
            .thread_name("files")
            .build()
            .expect("a runtime without drivers needs nothing of the kernel");
        Self { in_use: KeyedLimiter::default(), threads: Some(threads) }
    }
}

impl FilesBackend {
    fn threads(&self) -> &Handle {
        self.threads.as_ref().expect("kept until it is dropped").handle()
    }

    fn permit(&self, sandbox: SandboxId) -> Result<FilesPermit, CallError> {
        self.in_use.acquire(sandbox, |InUse { mine, total }| {
            let most = limits::FILES_VERBS_OF_SANDBOX_MAX;
            if mine >= most || total >= limits::FILES_VERBS_MAX + limits::FILE_WATCHES_MAX {
                let message = format!("too many file operations at once (at most {most} of a sandbox)");
                return Err(CallError::new(ApiErrorCode::TooMany, message));
            }
            Ok(())
        })
    }
}

impl Drop for FilesBackend {
    fn drop(&mut self) {
        // Without waiting for threads whose callers are slow.
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

/// A verb that replied.
pub struct FilesAnswer {
    pub reply: FilesReply,
    pub data: ResponseData,
}

/// Performs a verb without a body.
pub async fn perform(call: &Call, request: FilesRequest) -> Result<FilesAnswer, CallError> {
    perform_with(call, request, Body::empty()).await
}

/// Performs a verb on the sandbox that the path of the call names.
pub async fn perform_with(call: &Call, request: FilesRequest, body: Body) -> Result<FilesAnswer, CallError> {
    perform_on(&call.api, &*call.sandbox().await?, params::top(call)?, request, body).await
}

pub async fn perform_on(
    api: &Api,
    sandbox: &SandboxRecord,
    top: FilesTop,
    request: FilesRequest,
    body: Body,
) -> Result<FilesAnswer, CallError> {
    if sandbox.state.status == SandboxStatus::Destroyed {
        return Err(TransitionRefused::Destroyed.into());
    }
    let changes_content = request.changes_content();
    if request.adds_content() {
        check_disk(api)?;
        api.store.check_disk_quota(&sandbox.owner).await?;
    }
    let answer = perform_where_they_are(api, sandbox, top, request, body).await;
    if changes_content {
        api.fleet.note_files_changed(&sandbox.id);
    }
    answer
}

async fn perform_where_they_are(
    api: &Api,
    sandbox: &SandboxRecord,
    top: FilesTop,
    request: FilesRequest,
    body: Body,
) -> Result<FilesAnswer, CallError> {
    let driver = api.drivers.get(&sandbox.blueprint.driver);
    if top == FilesTop::Root || api.settings.files_in_sandbox {
        return in_sandbox(api, sandbox, top, &request, body).await;
    }
    // First: opening a workspace may hold a thread of the driver for as long as a snapshot takes it.
    let permit = api.files.permit(sandbox.id)?;
    match driver.open_workspace(&sandbox.id).await? {
        WorkspaceAccess::Here(workspace) => on_thread(api, (workspace, permit), request, body).await,
        WorkspaceAccess::Inside => {
            drop(permit);
            in_sandbox(api, sandbox, top, &request, body).await
        }
        WorkspaceAccess::Missing => {
            let message = "the sandbox has no files yet: it was never started";
            Err(CallError::new(ApiErrorCode::Conflict, message))
        }
    }
}

/// Refuses content while the disk of the host is low: it could fill the disk of a sandbox that nothing can stop, since it
/// does not run. Deleting is always allowed.
pub fn check_disk(api: &Api) -> Result<(), CallError> {
    match api.disk.level() {
        DiskLevel::Ok => Ok(()),
        DiskLevel::Low | DiskLevel::Full => Err(FleetError::DiskFull(api.disk.state()).into()),
    }
}

async fn on_thread(
    api: &Api,
    (workspace, permit): (OpenWorkspace, FilesPermit),
    request: FilesRequest,
    body: Body,
) -> Result<FilesAnswer, CallError> {
    let watches = matches!(request, FilesRequest::Watch { .. });
    let pipe = watches.then(std::io::pipe).transpose().map_err(|error| CallError::internal(&error))?;
    let (hung_up, hang_up) = pipe.unzip();
    let side = start(api.files.threads(), workspace, request, hung_up);
    let RequestSide { body: parts, reply, data: received } = side;
    let data = ResponseData::Thread(ThreadData { parts: received, _hang_up: hang_up, _permit: permit });
    let mut body = body;
    let feed = async {
        while let Some(bytes) = request_feed::next_chunk(&mut body).await? {
            check_disk(api)?;
            if parts.send(BodyPart::Data(bytes)).await.is_err() {
                // The verb has ended; its reply says why.
                return Ok(());
            }
        }
        let _ = parts.send(BodyPart::End).await;
        Ok::<(), CallError>(())
    };
    let mut reply = reply;
    let answered = tokio::select! {
        biased;
        answered = &mut reply => answered,
        fed = feed => {
            fed?;
            reply.await
        }
    };
    // Without an answer the thread panicked.
    let answered = answered.map_err(|closed| CallError::internal(&closed))?.map(without_owners);
    finish(answered, data, body).await
}

/// Starts a verb on a thread of its own.
fn start(
    threads: &Handle,
    workspace: OpenWorkspace,
    request: FilesRequest,
    hung_up: Option<PipeReader>,
) -> RequestSide {
    let (mut exchange, side) = thread_exchange::channel(hung_up);
    threads.spawn_blocking(move || {
        let OpenWorkspace { top, lease } = workspace;
        let done = as_user(top, &request, &mut exchange);
        drop(lease);
        exchange.finish(done);
    });
    side
}

fn as_user(
    top: OwnedFd,
    request: &FilesRequest,
    exchange: &mut thread_exchange::ThreadExchange,
) -> Result<(), FilesFailure> {
    let _user =
        SandboxUser::of(&top).and_then(UserGuard::enter).map_err(|error| failure::internal(&error))?;
    files::perform(&Workspace::new(top), exchange, request).map_err(|error| error.failure())
}

/// Removes the owners of files, which are ids of this host.
fn without_owners(mut reply: FilesReply) -> FilesReply {
    match &mut reply {
        FilesReply::Entry { entry, .. }
        | FilesReply::Content { entry, .. }
        | FilesReply::NotModified { entry } => {
            entry.owner = None;
        }
        FilesReply::Page { items, .. } => items.iter_mut().for_each(|entry| entry.owner = None),
        FilesReply::Done
        | FilesReply::Written { .. }
        | FilesReply::Archive
        | FilesReply::Unpacked(_)
        | FilesReply::Installed(_)
        | FilesReply::Found { .. }
        | FilesReply::Watching => {}
    }
    reply
}

/// Has a process inside the sandbox perform the verb. Nothing wakes for it.
async fn in_sandbox(
    api: &Api,
    sandbox: &SandboxRecord,
    top: FilesTop,
    request: &FilesRequest,
    mut body: Body,
) -> Result<FilesAnswer, CallError> {
    let asleep = || {
        let message = "the files of this sandbox are within reach only while it runs: start it first";
        CallError::new(ApiErrorCode::Asleep, message)
    };
    let control = match sandbox.state.status {
        SandboxStatus::Paused => api.fleet.thaw(&sandbox.id).await?.1,
        SandboxStatus::Running => api.fleet.control(&sandbox.id).await?.1,
        SandboxStatus::Creating
        | SandboxStatus::Stopped
        | SandboxStatus::Error
        | SandboxStatus::Destroyed => {
            return Err(asleep());
        }
    };
    let mut connection = control.files(top, request).await?;
    while let Some(bytes) = request_feed::next_chunk(&mut body).await? {
        check_disk(api)?;
        if connection.send(bytes).await.is_err() {
            // The verb has ended; its reply says why.
            break;
        }
    }
    // The same.
    let _ = connection.finish().await;
    let within = Duration::from_millis(limits::FILES_REPLY_MAX_MS);
    let replied = timeout(within, connection.reply()).await;
    let answered = match replied.map_err(|_| ControlError::TimedOut(limits::FILES_REPLY_MAX_MS))? {
        Ok(reply) => Ok(reply),
        Err(FilesConnectionError::Failed(failure)) => Err(failure),
        Err(error @ (FilesConnectionError::Malformed(_) | FilesConnectionError::Broken(_))) => {
            return Err(ControlError::Malformed(error.to_string()).into());
        }
    };
    // A watch alone does not keep a sandbox awake.
    let awake = (!matches!(request, FilesRequest::Watch { .. })).then_some(control);
    finish(answered, ResponseData::Sandbox(Box::new(SandboxData { connection, _awake: awake })), body).await
}

async fn finish(
    answered: Result<FilesReply, FilesFailure>,
    data: ResponseData,
    body: Body,
) -> Result<FilesAnswer, CallError> {
    match answered {
        Ok(reply) => Ok(FilesAnswer { reply, data }),
        Err(refused) => {
            request_feed::drain(body).await;
            Err(failure::to_call_error(refused))
        }
    }
}
