//! Unpacks an uploaded archive below a directory, which is made where it is missing.

use super::{
    extract::Extractor,
    meter::{Bounds, Meter, Received},
    tar_reader, zip_reader,
};
use crate::{
    Exchange, FilesError, Workspace, exchange::gone, mkdir::mkdir, temporary::Temporary, workspace::Slot,
};
use flate2::read::MultiGzDecoder;
use protocol::files::{ArchiveFormat, FilePath, FilesReply};
use std::{
    fs::File,
    io::{Read, Write},
};

pub fn unpack(
    workspace: &Workspace,
    exchange: &mut dyn Exchange,
    path: &FilePath,
    format: ArchiveFormat,
) -> Result<(), FilesError> {
    unpack_within(workspace, exchange, path, format, Bounds::default())
}

pub fn unpack_within(
    workspace: &Workspace,
    exchange: &mut dyn Exchange,
    path: &FilePath,
    format: ArchiveFormat,
    bounds: Bounds,
) -> Result<(), FilesError> {
    mkdir(workspace, path, None)?;
    let top = workspace.open_directory(path)?;
    let meter = Meter::new(bounds);
    // Beneath this directory, not beneath the workspace.
    let mut extractor = Extractor::new(Workspace::new(top), &meter);
    let source = Received::new(exchange, &meter);
    let unpacked = match format {
        ArchiveFormat::Tar => tar_reader::read(source, &meter, &mut extractor),
        ArchiveFormat::TarGz => tar_reader::read(MultiGzDecoder::new(source), &meter, &mut extractor),
        ArchiveFormat::Zip => {
            let parent = workspace.open_directory(path)?;
            let slot = Slot { parent, name: c"archive.zip".to_owned(), path: path.clone() };
            // It is never given that name: it is gone with this value.
            let spool = Temporary::new(&slot)?;
            receive(source, &spool.file, path, &meter)
                .and_then(|()| zip_reader::read(&spool.file, exchange, &meter, &mut extractor))
        }
    };
    let finished = extractor.finish();
    unpacked?;
    exchange.reply(FilesReply::Unpacked(finished?)).map_err(gone)
}

/// Spools an archive whose directory is at its end.
fn receive(
    mut source: Received<'_>,
    mut spool: &File,
    path: &FilePath,
    meter: &Meter,
) -> Result<(), FilesError> {
    let mut buffer = vec![0; crate::limits::CHUNK_BYTES];
    loop {
        match source.read(&mut buffer).map_err(|error| meter.error(&error))? {
            0 => return Ok(()),
            count => {
                spool.write_all(&buffer[..count]).map_err(FilesError::io_at("write the file", path))?;
            }
        }
    }
}
