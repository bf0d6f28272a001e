//! The bytes of an archive on their way to the caller, in chunks.

use crate::{Exchange, FilesError, exchange::gone, limits::CHUNK_BYTES};
use bytes::BytesMut;
use std::{
    cell::RefCell,
    io::{self, Write},
};

/// The exchange, of which a writer sends while a walk asks whether the caller is gone.
pub type SharedExchange<'a> = RefCell<&'a mut dyn Exchange>;

/// Dropped without [`Chunks::finish`], it sends nothing more: an archive that failed is seen to be cut.
pub struct Chunks<'a, 'e> {
    exchange: &'a SharedExchange<'e>,
    buffer: BytesMut,
}

impl<'a, 'e> Chunks<'a, 'e> {
    pub fn new(exchange: &'a SharedExchange<'e>) -> Self {
        Self { exchange, buffer: BytesMut::with_capacity(CHUNK_BYTES) }
    }

    pub fn finish(mut self) -> Result<(), FilesError> {
        if self.buffer.is_empty() { Ok(()) } else { self.send().map_err(gone) }
    }

    fn send(&mut self) -> io::Result<()> {
        let chunk = std::mem::replace(&mut self.buffer, BytesMut::with_capacity(CHUNK_BYTES));
        self.exchange.borrow_mut().send(chunk.freeze())
    }
}

impl Write for Chunks<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(CHUNK_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..count]);
        if self.buffer.len() == CHUNK_BYTES {
            self.send()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
