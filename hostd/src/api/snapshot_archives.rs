//! Snapshots as archives, to be taken to another host. Neither side holds an archive: it is streamed.

use super::{
    call::Call,
    dispatch::new_id,
    error::{CallError, CallResult},
    files::{check_disk, request_feed},
    sandboxes::PROJECT,
    snapshot_permits::SnapshotPermit,
    snapshots::{check_optional_name, created, made, snapshot},
    state::Api,
};
use crate::reconcile::{FleetError, SnapshotRoom};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream::{StreamExt, iter, unfold};
use hostd_core::{Defaults, blueprint, check_name};
use hostd_drivers::{DriverError, RoomCheck};
use hostd_store::{NewSnapshot, SnapshotRow};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use protocol::api::{ApiErrorCode, Label, Owner, SandboxSpec, SnapshotContent, SnapshotId};
use serde::{Deserialize, Serialize};
use std::{fs::File, io, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
    runtime::Handle,
    sync::oneshot,
};

const MEDIA_TYPE: &str = "application/zstd";
const PIECE_BYTES: usize = 64 << 10;

/// The note in an archive. Not trusted where an archive is imported.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct ArchiveNote {
    name: Option<String>,
    /// Of the manifest.
    sha256: Option<String>,
    ports: Vec<u16>,
    excludes: Vec<String>,
}

/// An archive that is being written.
struct Export {
    pipe: pipe::Receiver,
    end: oneshot::Receiver<Result<(), FleetError>>,
}

impl Export {
    /// The next bytes. An export that fails aborts the connection, so that no part is taken for the whole.
    async fn next(&mut self) -> Result<Option<Bytes>, FleetError> {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let read = self.pipe.read_buf(&mut piece).await;
        let what = || "read the archive of the snapshot".to_owned();
        if read.map_err(|source| DriverError::Io { what: what(), source })? > 0 {
            return Ok(Some(piece.into()));
        }
        (&mut self.end).await.unwrap_or(Err(FleetError::ShuttingDown)).map(|()| None)
    }
}

/// A snapshot is exported with the hash of its manifest, so that an import can be checked.
pub async fn export(call: Call) -> CallResult {
    let row = snapshot(&call).await?;
    let permit = call.snapshot_permit()?;
    let (content, permit) = content_of(&call, &row, permit).await?;
    let note = ArchiveNote {
        name: row.name.clone(),
        sha256: Some(content.sha256),
        ports: row.blueprint.ports.clone(),
        excludes: row.excludes.clone(),
    };
    let note = serde_json::to_vec(&note).map_err(|error| CallError::internal(&error))?;
    let internal = |error: io::Error| CallError::internal(&error);
    let (reader, writer) = io::pipe().map_err(internal)?;
    let pipe = pipe::Receiver::from_owned_fd(reader.into()).map_err(internal)?;
    let end = call.api.fleet.export_snapshot(&row.id, note, writer, permit);
    let mut export = Export { pipe, end };
    // What cannot be exported is refused with a status where that shows at once.
    let first = export.next().await?;
    let rest = unfold(Some(export), |export| async {
        let mut export = export?;
        match export.next().await {
            Ok(piece) => piece.map(|piece| (Ok(piece), Some(export))),
            Err(error) => Some((Err(error), None)),
        }
    });
    let mut response = Response::new(Body::from_stream(iter(first.map(Ok)).chain(rest)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    Ok(response)
}

/// The hashes of a snapshot, which are made where it has none yet. The permit is held as long as that goes on.
async fn content_of(
    call: &Call,
    row: &SnapshotRow,
    permit: SnapshotPermit,
) -> Result<(SnapshotContent, SnapshotPermit), CallError> {
    if let Some(content) = &row.content {
        return Ok((content.clone(), permit));
    }
    let (fleet, id) = (call.api.fleet.clone(), row.id);
    call.api.fleet.run_to_end(async move { Ok((fleet.hash(&id).await?, permit)) }).await
}

/// Streams a file with a JSON object in each line.
pub async fn json_lines(file: File) -> CallResult {
    let file = tokio::fs::File::from_std(file);
    let length = file.metadata().await.map_err(|error| CallError::internal(&error))?.len();
    let pieces = unfold(file, |mut file| async {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        match file.read_buf(&mut piece).await {
            Ok(0) => None,
            read => Some((read.map(|_| Bytes::from(piece)), file)),
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response.headers_mut().insert(CONTENT_LENGTH, length.into());
    Ok(response)
}

/// Goes on when the caller is gone: an archive that ends early leaves nothing.
pub async fn import(call: Call) -> CallResult {
    let fleet = call.api.fleet.clone();
    fleet.run_to_end(async move { import_whole(call).await }).await
}

async fn import_whole(mut call: Call) -> CallResult {
    let _permit = call.snapshot_permit()?;
    let name = call.query.text("name").map(str::to_owned);
    check_optional_name(name.as_deref())?;
    let id: SnapshotId = new_id().parse().map_err(|error| CallError::internal(&error))?;
    let defaults = Defaults { image: call.api.default_image(), ..call.api.defaults.clone() };
    let new = NewSnapshot {
        id,
        name,
        sandbox: None,
        owner: call.owner()?,
        excludes: vec![],
        blueprint: Arc::new(blueprint(&SandboxSpec::default(), &defaults)?.0),
        created_ms: call.api.now_ms(),
    };
    made(call.api.store.insert_snapshot(new).await?)?;
    let (body, _large_reads) = call.take_upload();
    if let Err(error) = receive(&call, &id, body, &defaults).await {
        call.api.fleet.give_up(&id).await;
        return Err(error);
    }
    let row = call.api.fleet.finish_import(&id).await?;
    Ok(created(&row))
}

/// Unpacks an archive as it comes, and checks it against its note.
async fn receive(call: &Call, id: &SnapshotId, mut body: Body, defaults: &Defaults) -> Result<(), CallError> {
    let internal = |error: io::Error| CallError::internal(&error);
    let (reader, writer) = io::pipe().map_err(internal)?;
    let mut pipe = pipe::Sender::from_owned_fd(writer.into()).map_err(internal)?;
    let room = SnapshotRoom::new(call.api.fleet.clone(), *id, call.owner()?);
    let (asked, runtime) = (room.clone(), Handle::current());
    let check_room: RoomCheck = Box::new(move |bytes| asked.check_on_thread(&runtime, bytes));
    let imported = call.api.fleet.import_snapshot(id, reader, check_room);
    let fed = feed(&call.api, &mut body, &mut pipe).await;
    drop(pipe);
    // Waited for also where the upload broke off: the files of a failed import are removed when nothing writes them.
    let imported = imported.await.map_err(|_| CallError::from(FleetError::ShuttingDown))?;
    fed?;
    // Says more than the error of the driver that was told of it.
    if let Some(refused) = room.take_refusal() {
        return Err(refused.into());
    }
    let note = imported?;
    let Some(note) = note else { return Ok(()) };
    let refused = |message: &str| CallError::new(ApiErrorCode::InvalidRequest, message.to_owned());
    let note: ArchiveNote =
        serde_json::from_slice(&note).map_err(|_| refused("the note of the archive is not valid"))?;
    let content = call.api.fleet.hash(id).await?;
    if note.sha256.is_some_and(|sha256| sha256 != content.sha256) {
        return Err(refused("the archive is damaged: its files are not those that were exported"));
    }
    // The name of the request wins; ports are checked as those of a spec.
    let name = note.name.filter(|name| check_name(name).is_ok());
    let spec = SandboxSpec { ports: note.ports, ..SandboxSpec::default() };
    let blueprint = blueprint(&spec, defaults)?.0;
    Ok(call.api.store.describe_import(id, name, &blueprint).await?)
}

/// Passes an upload on, until its end or until the archive is refused.
async fn feed(api: &Api, body: &mut Body, pipe: &mut pipe::Sender) -> Result<(), CallError> {
    while let Some(bytes) = request_feed::next_chunk(body).await? {
        check_disk(api)?;
        if pipe.write_all(&bytes).await.is_err() {
            break;
        }
    }
    Ok(())
}

impl Call {
    /// The owner of what the caller imports.
    fn owner(&self) -> Result<Owner, CallError> {
        let (tenant, principal) = (self.caller.tenant.clone(), self.caller.principal.clone());
        let project = Label::parse(PROJECT).map_err(|error| CallError::internal(&error))?;
        Ok(Owner { tenant, principal, project })
    }
}
