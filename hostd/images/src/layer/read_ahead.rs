//! Decompresses and hashes an archive on a thread of its own, some blocks ahead of the thread that writes files.

use crate::{
    Digest, DigestReader,
    compression::decompress,
    limits::{READ_AHEAD_BLOCK_BYTES, READ_AHEAD_BLOCKS},
};
use std::{
    io::{self, BufRead, BufReader, Read},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

/// A part of the archive. Buffers go back and forth between the threads.
struct Block {
    bytes: Vec<u8>,
    length: usize,
}

/// Reads the decompressed archive.
pub struct ReadAhead {
    filled: Receiver<io::Result<Block>>,
    free: SyncSender<Block>,
    current: Option<Block>,
    position: usize,
}

/// Runs `work` on the decompressed archive, and returns with its result the digest of what it read. An archive that
/// `work` did not read to its end has none.
pub fn with_read_ahead<T, E: From<io::Error>>(
    compressed: impl Read + Send,
    work: impl FnOnce(ReadAhead) -> Result<T, E>,
) -> Result<(T, Option<Digest>), E> {
    let (filled_sender, filled) = sync_channel(READ_AHEAD_BLOCKS);
    let (free, free_receiver) = sync_channel(READ_AHEAD_BLOCKS);
    for _ in 0..READ_AHEAD_BLOCKS {
        let block = Block { bytes: vec![0; READ_AHEAD_BLOCK_BYTES], length: 0 };
        free.send(block).expect("the receiver is still here, and there is room");
    }
    thread::scope(|scope| {
        let decompressor = thread::Builder::new()
            .name("decompress".to_owned())
            .spawn_scoped(scope, move || fill_blocks(compressed, &free_receiver, &filled_sender))?;
        // The reader is dropped when the work ends, and with it the thread ends.
        let result = work(ReadAhead { filled, free, current: None, position: 0 });
        let digest = decompressor.join().map_err(|_| io::Error::other("decompression panicked"))?;
        Ok((result?, digest))
    })
}

/// Fills blocks until the end of the archive, an error, or the end of the reader.
fn fill_blocks(
    compressed: impl Read + Send,
    free: &Receiver<Block>,
    filled: &SyncSender<io::Result<Block>>,
) -> Option<Digest> {
    let source = BufReader::with_capacity(READ_AHEAD_BLOCK_BYTES, compressed);
    let mut source = match decompress(source) {
        Ok(source) => DigestReader::new(source),
        Err(error) => {
            let _ = filled.send(Err(error));
            return None;
        }
    };
    while let Ok(mut block) = free.recv() {
        match fill(&mut source, &mut block) {
            Ok(()) if block.length == 0 => return Some(source.finish().1),
            Ok(()) => filled.send(Ok(block)).ok()?,
            Err(error) => {
                let _ = filled.send(Err(error));
                return None;
            }
        }
    }
    None
}

fn fill(source: &mut impl Read, block: &mut Block) -> io::Result<()> {
    block.length = 0;
    while block.length < block.bytes.len() {
        match source.read(&mut block.bytes[block.length..]) {
            Ok(0) => break,
            Ok(length) => block.length += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl BufRead for ReadAhead {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let is_read = self.current.as_ref().is_none_or(|block| self.position == block.length);
        if is_read {
            if let Some(block) = self.current.take() {
                // The thread has ended when it has read everything.
                let _ = self.free.send(block);
            }
            self.position = 0;
            self.current = self.filled.recv().ok().transpose()?;
        }
        Ok(self.current.as_ref().map_or(&[], |block| &block.bytes[self.position..block.length]))
    }

    fn consume(&mut self, bytes: usize) {
        self.position += bytes;
    }
}

impl Read for ReadAhead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let length = available.len().min(buffer.len());
        buffer[..length].copy_from_slice(&available[..length]);
        self.consume(length);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_read_and_hashed() {
        for length in [0, 1, READ_AHEAD_BLOCK_BYTES, 20 * READ_AHEAD_BLOCK_BYTES + 7] {
            let bytes: Vec<u8> = (0..length).map(|number| (number % 251) as u8).collect();
            let (read, digest) = with_read_ahead(bytes.as_slice(), |mut source| {
                let mut read = vec![];
                source.read_to_end(&mut read).map(|_| read)
            })
            .expect("in memory");
            assert!(read == bytes, "{length}");
            assert_eq!(digest, Some(Digest::of(&bytes)), "{length}");
        }
    }

    #[test]
    fn the_thread_ends_with_the_reader() {
        let endless = io::repeat(7);
        let result: Result<((), _), io::Error> = with_read_ahead(endless, |_| Ok(()));
        assert_eq!(result.expect("nothing was read").1, None);
    }

    #[test]
    fn an_error_arrives_after_what_was_read_before_it() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("broken"))
            }
        }
        let bytes = vec![1; 2 * READ_AHEAD_BLOCK_BYTES];
        let mut read = vec![];
        let result: Result<((), _), io::Error> =
            with_read_ahead(bytes.chain(Failing), |mut source| source.read_to_end(&mut read).map(|_| ()));
        assert_eq!(result.expect_err("broken").to_string(), "broken");
        assert_eq!(read.len(), 2 * READ_AHEAD_BLOCK_BYTES);
    }
}
