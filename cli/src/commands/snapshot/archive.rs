//! `slipway snapshot export` and `import`: snapshots as archives, streamed to and from this machine.

use super::{find, path};
use crate::{
    client::{ApiRequest, ClientError},
    context::Context,
    failure::Failure,
    files::{PartialFile, Transfer, body_of_reader, open_regular},
    limits,
    text::plain,
};
use clap::Args;
use http_body_util::BodyExt as _;
use protocol::api::SnapshotView;
use std::{io::Write, path::PathBuf, sync::Arc};

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,
    /// File to write, or - for standard output
    #[arg(value_name = "FILE.tar.zst")]
    file: PathBuf,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// An archive of `slipway snapshot export`, or - for standard input
    #[arg(value_name = "FILE.tar.zst")]
    file: PathBuf,
    /// Name of the snapshot; default: the one in the archive
    #[arg(long)]
    name: Option<String>,
}

/// The file appears under its name when it is whole.
pub async fn export(context: &Context, args: ExportArgs) -> Result<(), Failure> {
    let snapshot = find(context, &args.snapshot).await?;
    let mut body = context.client.open(ApiRequest::get(path(&snapshot, "/archive"))).await?.into_body();
    let cannot = |error| Failure::io(format!("write {}", plain(&args.file.to_string_lossy())), error);
    let to_stdout = args.file.as_os_str() == "-";
    let mut file = match to_stdout {
        true => None,
        false => Some(PartialFile::create(&args.file).map_err(cannot)?),
    };
    let transfer = Transfer::new(context.output, "exporting", None);
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame.map_err(ClientError::ConnectionLost)?.into_data() else { continue };
        transfer.add(bytes.len());
        tokio::task::block_in_place(|| match &mut file {
            Some(file) => file.write_all(&bytes).map_err(cannot),
            None => context.output.bytes(&bytes),
        })?;
    }
    file.map_or(Ok(()), |file| file.finish(&args.file, 0o644)).map_err(cannot)
}

pub async fn import(context: &Context, args: ImportArgs) -> Result<(), Failure> {
    let cannot = |error| Failure::io(format!("read {}", plain(&args.file.to_string_lossy())), error);
    let request = ApiRequest::post("/v1/snapshots")
        .query_if("name", args.name.as_deref())
        .header("content-type", "application/zstd")
        .timeout(limits::SNAPSHOT_TIMEOUT);
    let body = if args.file.as_os_str() == "-" {
        let transfer = Transfer::new(context.output, "importing", None);
        body_of_reader(Arc::new(transfer), std::io::stdin())
    } else {
        let (file, metadata) = open_regular(&args.file, true).map_err(cannot)?;
        let transfer = Transfer::new(context.output, "importing", Some(metadata.len()));
        body_of_reader(Arc::new(transfer), file)
    };
    let response = context.client.upload(request, body).await?;
    context.show_response(&response, |view: SnapshotView| Ok(format!("{}\n", view.id)))
}
