//! Lines to the caller, several in one piece.

use crate::{Exchange, FilesError, exchange::gone};
use bytes::{BufMut, Bytes, BytesMut};
use protocol::files::{FileChangeEvent, WatchLine};

/// Bytes of lines that are sent in one piece.
const PIECE_BYTES: usize = 64 << 10;

pub fn send(exchange: &mut dyn Exchange, line: &WatchLine) -> Result<(), FilesError> {
    let mut piece = BytesMut::new();
    append(&mut piece, line)?;
    exchange.send(piece.freeze()).map_err(gone)
}

pub fn send_changes(exchange: &mut dyn Exchange, changes: Vec<FileChangeEvent>) -> Result<(), FilesError> {
    let mut piece = BytesMut::new();
    for change in changes {
        append(&mut piece, &WatchLine::Change(change))?;
        if piece.len() >= PIECE_BYTES {
            exchange.send(piece.split().freeze()).map_err(gone)?;
        }
    }
    if piece.is_empty() { Ok(()) } else { exchange.send(Bytes::from(piece)).map_err(gone) }
}

fn append(piece: &mut BytesMut, line: &WatchLine) -> Result<(), FilesError> {
    serde_json::to_writer(piece.writer(), line).map_err(|error| FilesError::invalid(error.to_string()))?;
    piece.put_u8(b'\n');
    Ok(())
}
