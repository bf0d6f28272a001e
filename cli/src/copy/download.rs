//! Copies out of a sandbox.

use super::target::CopyTarget;
use crate::{
    context::Context,
    failure::{Failure, eprint_line},
    files::{
        FileApi, PartialFile, ReadError, SandboxPath, Transfer, Unpacked, WorkspacePath, os_name, read_body,
        unpack,
    },
};
use http_body_util::BodyExt as _;
use hyper::{Response, body::Incoming};
use protocol::{api::FileView, files::FileType};
use std::{fs, io, path::Path, sync::Arc};

const MODE_DEFAULT: u32 = 0o644;

/// Copies a file or directory to this machine.
pub async fn to_local(
    context: &Context,
    api: &FileApi,
    from: &SandboxPath,
    (path, to): (&Path, &CopyTarget),
) -> Result<(), Failure> {
    let found = api.stat(&from.path, true).await?;
    let content_only = found.kind == FileType::Directory && (from.names_content || from.path.is_top());
    let name = from.path.name().filter(|_| to.into && !content_only);
    let path = name.map_or_else(|| path.to_owned(), |name| path.join(os_name(name)));
    match found.kind {
        FileType::Directory => directory(context, api, &from.path, &path).await,
        FileType::File => file(context, api, (&from.path, &found), &path).await,
        FileType::Symlink | FileType::Fifo | FileType::Socket | FileType::Device => {
            Err(Failure::new(format!("{} is no file or directory", from.path)))
        }
    }
}

async fn file(
    context: &Context,
    api: &FileApi,
    (from, found): (&WorkspacePath, &FileView),
    to: &Path,
) -> Result<(), Failure> {
    let cannot = |error| Failure::io(format!("write {}", to.display()), error);
    if let Some(parent) = to.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(cannot)?;
    }
    let transfer = Arc::new(Transfer::new(context.output, &from.to_string(), Some(found.size)));
    let response = api.read(from).await?;
    let (mode, target) = (mode_of(&response), to.to_owned());
    let saved = read_body(transfer, response.into_body(), move |body| save(body, &target, mode)).await;
    saved.map_err(|error| failure(error, to))
}

/// Writes a file as a whole. A link or device at its place is written through, as with cp.
fn save(body: &mut dyn io::Read, to: &Path, mode: u32) -> io::Result<()> {
    let special = fs::symlink_metadata(to).is_ok_and(|found| !found.is_file());
    if special {
        let mut file = fs::OpenOptions::new().write(true).truncate(true).open(to)?;
        return io::copy(body, &mut file).map(drop);
    }
    let mut file = PartialFile::create(to)?;
    io::copy(body, &mut file)?;
    file.finish(to, mode)
}

/// The permissions of the file, which come beside its bytes.
fn mode_of(response: &Response<Incoming>) -> u32 {
    let header = response.headers().get("x-file-mode").and_then(|value| value.to_str().ok());
    header.and_then(|text| u32::from_str_radix(text, 8).ok()).unwrap_or(MODE_DEFAULT)
}

async fn directory(context: &Context, api: &FileApi, from: &WorkspacePath, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to).map_err(|error| Failure::io(format!("make {}", to.display()), error))?;
    let transfer = Arc::new(Transfer::new(context.output, &from.to_string(), None));
    let response = api.read_archive(from).await?;
    let target = to.to_owned();
    let unpacked = read_body(transfer, response.into_body(), move |body| {
        let unpacked = unpack(body, &target)?;
        // To the end: an archive that is cut behind its last entry would look whole.
        io::copy(body, &mut io::sink())?;
        Ok(unpacked)
    });
    report(&unpacked.await.map_err(|error| failure(error, to))?);
    Ok(())
}

fn report(unpacked: &Unpacked) {
    for (name, why) in &unpacked.skipped {
        eprint_line(&format!("slipway: {} was left out: {why}", name.display()));
    }
    let more = unpacked.skipped_count.saturating_sub(unpacked.skipped.len() as u64);
    if more > 0 {
        eprint_line(&format!("slipway: {more} more were left out"));
    }
}

fn failure(error: ReadError, to: &Path) -> Failure {
    match error {
        ReadError::Remote(error) => error.into(),
        ReadError::Local(error) => Failure::io(format!("write {}", to.display()), error),
    }
}

/// Copies a file to standard output, byte for byte.
pub async fn to_stdout(context: &Context, api: &FileApi, from: &WorkspacePath) -> Result<(), Failure> {
    let mut body = api.read(from).await?.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(crate::client::ClientError::ConnectionLost)?;
        if let Ok(bytes) = frame.into_data() {
            tokio::task::block_in_place(|| context.output.bytes(&bytes))?;
        }
    }
    Ok(())
}
