//! Copies into a sandbox.

use super::target::{CopyTarget, own_name};
use crate::{
    context::Context,
    failure::{Failure, eprint_line},
    files::{
        ArchiveSource, FileApi, Transfer, WorkspacePath, WriteOptions, body_of, body_of_reader, open_regular,
        pack, permissions,
    },
};
use protocol::api::UnpackView;
use std::{
    fs, io,
    path::Path,
    sync::{Arc, Mutex},
};

/// Copies a file or directory of this machine.
pub async fn local(
    context: &Context,
    from: &Path,
    (api, path): (&FileApi, &WorkspacePath),
    to: &CopyTarget,
) -> Result<(), Failure> {
    let cannot = |error| Failure::io(format!("read {}", from.display()), error);
    let metadata = fs::metadata(from).map_err(cannot)?;
    let named = own_name(from).filter(|_| to.into);
    let path = named.map_or_else(|| path.clone(), |name| path.join(name));
    if metadata.is_dir() {
        return directory(context, from, api, &path).await;
    }
    let (file, metadata) = open_regular(from, true).map_err(cannot)?;
    let transfer = Arc::new(Transfer::new(context.output, &from.to_string_lossy(), Some(metadata.len())));
    let options = WriteOptions { mode: Some(permissions(&metadata)), ..WriteOptions::default() };
    let failed = read_failure();
    let body = body_of_reader(transfer, FailingReader { reader: file, failed: Arc::clone(&failed) });
    let written = api.write(&path, &options, body).await;
    take_failure(&failed, from)?;
    written?;
    Ok(())
}

async fn directory(
    context: &Context,
    from: &Path,
    api: &FileApi,
    path: &WorkspacePath,
) -> Result<(), Failure> {
    // An empty directory is copied too, and one that cannot be made fails before anything is sent.
    if !path.is_top() {
        api.mkdir(path, None).await?;
    }
    let transfer = Arc::new(Transfer::new(context.output, &from.to_string_lossy(), None));
    let failed = read_failure();
    let (source, keep) = (source_of(from), Arc::clone(&failed));
    let body = body_of(transfer, move |to| pack(&source, to).inspect_err(|error| keep_failure(&keep, error)));
    let unpacked = api.write_archive(path, body).await;
    take_failure(&failed, from)?;
    report_skipped(&unpacked?);
    Ok(())
}

/// Copies standard input, as long as it is.
pub async fn stdin(
    context: &Context,
    (api, path): (&FileApi, &WorkspacePath),
    to: &CopyTarget,
) -> Result<(), Failure> {
    if to.into {
        let message = "standard input has no name: give the path of the file, not of its directory";
        return Err(Failure::Usage(message.to_owned()));
    }
    let transfer = Arc::new(Transfer::new(context.output, "standard input", None));
    let failed = read_failure();
    let body = body_of_reader(transfer, FailingReader { reader: io::stdin(), failed: Arc::clone(&failed) });
    let written = api.write(path, &WriteOptions::default(), body).await;
    take_failure(&failed, Path::new("standard input"))?;
    written?;
    Ok(())
}

fn source_of(directory: &Path) -> ArchiveSource {
    let on_skipped = |name: &Path, why: &str| {
        eprint_line(&format!("slipway: {} was left out: {why}", name.display()));
    };
    ArchiveSource { directory: directory.to_owned(), on_skipped }
}

pub fn report_skipped(unpacked: &UnpackView) {
    for skipped in &unpacked.skipped {
        eprint_line(&format!("slipway: {} was left out: {}", skipped.path, skipped.reason));
    }
    let more = unpacked.skipped_count.saturating_sub(unpacked.skipped.len() as u64);
    if more > 0 {
        eprint_line(&format!("slipway: {more} more were left out"));
    }
}

/// The failure of a read, which hostd only sees as a request that broke off.
type ReadFailure = Arc<Mutex<Option<io::Error>>>;

fn read_failure() -> ReadFailure {
    Arc::default()
}

fn keep_failure(failed: &ReadFailure, error: &io::Error) {
    // A broken pipe is the end of the request, for whatever reason.
    if error.kind() != io::ErrorKind::BrokenPipe
        && let Ok(mut failed) = failed.lock()
    {
        *failed = Some(io::Error::new(error.kind(), error.to_string()));
    }
}

fn take_failure(failed: &ReadFailure, from: &Path) -> Result<(), Failure> {
    let failed = failed.lock().ok().and_then(|mut failed| failed.take());
    failed.map_or(Ok(()), |error| Err(Failure::io(format!("read {}", from.display()), error)))
}

struct FailingReader<R> {
    reader: R,
    failed: ReadFailure,
}

impl<R: io::Read> io::Read for FailingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer).inspect_err(|error| {
            if error.kind() != io::ErrorKind::Interrupted {
                keep_failure(&self.failed, error);
            }
        })
    }
}
