//! Backups of the host, as ciphertext that is streamed. What went wrong after the first byte is in a trailer.

use super::{
    call::Call,
    error::{CallError, CallResult},
    route::{RequiredAccess, Route},
};
use crate::{
    backup::{BackupError, BackupParts, BackupPlan, RunningBackup, SKIPPED_NAMED_MAX, SealWith, begin},
    reconcile::FleetError,
};
use axum::{BoxError, body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use hostd_store::SnapshotFilter;
use http_body_util::StreamBody;
use hyper::{
    HeaderMap, Method,
    body::Frame,
    header::{CONTENT_TYPE, HeaderValue, TE, TRAILER},
};
use protocol::api::{
    ApiErrorCode, BACKUP_SANDBOXES_MAX, BACKUP_TRAILER, BackupCreate, BackupEnd, BackupSummary,
    BackupWorkspaces, SandboxId, SandboxStatus, SnapshotId,
};
use tokio::{io::AsyncReadExt, net::unix::pipe, sync::oneshot};

const PIECE_BYTES: usize = 64 << 10;

pub fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/host/backup", RequiredAccess::Operator, create)
            .operation("createBackup", "Make a backup of the host, encrypted with age")
            .json_body::<BackupCreate>()
            .rejects_idempotency_key()
            .returns_media(200, "application/octet-stream"),
    ]
}

/// Makes a backup. It ends with its caller.
pub async fn create(call: Call) -> CallResult {
    let BackupCreate { passphrase, recipients, workspaces, sandboxes, snapshots } = call.json()?;
    let seal = SealWith::parse(passphrase, &recipients)
        .map_err(|wrong| CallError::invalid(wrong.field, wrong.message))?;
    let busy = |_| CallError::new(ApiErrorCode::TooMany, "another backup is being made; wait for it to end");
    let permit = call.api.backups.clone().try_acquire_owned().map_err(busy)?;
    let plan = BackupPlan {
        seal,
        sandboxes: chosen(&call, workspaces, sandboxes).await?,
        snapshots: if snapshots { ready_snapshots(&call).await? } else { Vec::new() },
        created_ms: call.api.now_ms(),
    };
    let api = &call.api;
    let parts = BackupParts {
        fleet: api.fleet.clone(),
        store: api.store.clone(),
        disk: api.disk.clone(),
        data_dir: api.settings.data_dir.clone(),
        instance: api.settings.instance.clone(),
        settings: api.settings.backup.clone(),
    };
    let RunningBackup { pipe, end } = begin(parts, plan, permit).await?;
    let internal = |error: std::io::Error| CallError::internal(&error);
    let pipe = pipe::Receiver::from_owned_fd(pipe.into()).map_err(internal)?;
    let takes_trailers = call.headers.get(TE).is_some_and(|value| value == "trailers");
    Ok(response(Sending { pipe, end, takes_trailers }))
}

/// The sandboxes whose files are wanted.
async fn chosen(
    call: &Call,
    workspaces: BackupWorkspaces,
    named: Vec<SandboxId>,
) -> Result<Vec<SandboxId>, CallError> {
    match workspaces {
        BackupWorkspaces::Some if named.is_empty() => {
            Err(CallError::invalid("sandboxes", "name at least one, or leave `workspaces` out for all"))
        }
        BackupWorkspaces::Some if named.len() > BACKUP_SANDBOXES_MAX => {
            Err(CallError::invalid("sandboxes", format!("are at most {BACKUP_SANDBOXES_MAX}")))
        }
        BackupWorkspaces::Some => {
            for id in &named {
                let record = call.sandbox_by(id.as_str()).await?;
                if record.state.status == SandboxStatus::Destroyed {
                    return Err(CallError::invalid("sandboxes", format!("{id} is destroyed")));
                }
            }
            Ok(named)
        }
        BackupWorkspaces::All | BackupWorkspaces::None if !named.is_empty() => {
            Err(CallError::invalid("sandboxes", "are named with `workspaces: some` only"))
        }
        BackupWorkspaces::All => {
            let mut all: Vec<_> = call.api.fleet.records().iter().map(|record| record.id).collect();
            all.sort_unstable();
            Ok(all)
        }
        BackupWorkspaces::None => Ok(Vec::new()),
    }
}

async fn ready_snapshots(call: &Call) -> Result<Vec<SnapshotId>, CallError> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let limit = hostd_store::limits::LIST_MAX_ROWS;
        let page = call.api.store.snapshots(SnapshotFilter::default(), after, limit).await?;
        found.extend(page.iter().map(|row| row.id));
        match page.last() {
            Some(last) if page.len() >= limit => after = Some(last.id),
            Some(_) | None => return Ok(found),
        }
    }
}

struct Sending {
    pipe: pipe::Receiver,
    end: oneshot::Receiver<Result<BackupSummary, BackupError>>,
    takes_trailers: bool,
}

impl Sending {
    /// The next frame, and whether others follow. Without trailers a failure aborts the connection.
    async fn next(&mut self) -> Option<(Result<Frame<Bytes>, BoxError>, bool)> {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        match self.pipe.read_buf(&mut piece).await {
            Ok(0) => {}
            Ok(_) => return Some((Ok(Frame::data(piece.into())), true)),
            Err(error) => return Some((Err(error.into()), false)),
        }
        let ended = (&mut self.end).await.unwrap_or(Err(FleetError::ShuttingDown.into()));
        match (ended, self.takes_trailers) {
            (ended, true) => Some((Ok(Frame::trailers(trailers(ended))), false)),
            (Ok(_), false) => None,
            (Err(error), false) => Some((Err(error.into()), false)),
        }
    }
}

fn response(sending: Sending) -> Response {
    let takes_trailers = sending.takes_trailers;
    let frames = unfold(Some(sending), |sending| async {
        let mut sending = sending?;
        let (frame, more) = sending.next().await?;
        Some((frame, more.then_some(sending)))
    });
    let mut response = Response::new(Body::new(StreamBody::new(frames)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    if takes_trailers {
        headers.insert(TRAILER, HeaderValue::from_static(BACKUP_TRAILER));
    }
    response
}

fn trailers(ended: Result<BackupSummary, BackupError>) -> HeaderMap {
    let end = match ended {
        Ok(BackupSummary { sandboxes, snapshots, mut skipped }) => {
            skipped.truncate(SKIPPED_NAMED_MAX);
            BackupEnd::Done { sandboxes: sandboxes.len(), snapshots: snapshots.len(), skipped }
        }
        Err(error) => {
            let error = CallError::from(error);
            BackupEnd::Failed { message: error.error.message.clone() }
        }
    };
    let text = serde_json::to_string(&end).unwrap_or_default();
    // A header is ASCII.
    let text: String = text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect();
    let value = HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("{}"));
    HeaderMap::from_iter([(hyper::header::HeaderName::from_static(BACKUP_TRAILER), value)])
}
