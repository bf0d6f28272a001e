//! Streams a root file system to the engine as a tar archive: packed on a blocking thread, with backpressure.

use crate::{ProgressSink, docker::engine::Tar, local::images::RootTree};
use bytes::{Bytes, BytesMut};
use futures_util::stream::poll_fn;
use hostd_images::pack_tar;
use std::{
    io::{self, Write},
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// Size of one chunk, and chunks buffered in the channel.
const PIECE_BYTES: usize = 256 << 10;
const PIECES_MAX: usize = 8;
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Packs a tree and reports `what` with the bytes sent. A tree that cannot be read ends the stream with an
/// error, never as a truncated archive that looks complete.
pub fn tar_stream(tree: RootTree, what: String, progress: ProgressSink) -> Tar {
    let (pieces, mut accepted) = mpsc::channel(PIECES_MAX);
    // Ends when the archive is complete, or when the receiver is dropped.
    tokio::task::spawn_blocking(move || {
        let mut feed = TarChunkWriter { pieces, piece: BytesMut::with_capacity(PIECE_BYTES) };
        if let Err(error) = tree.read(|root| pack_tar(root, &mut feed)) {
            let _ = feed.pieces.blocking_send(Err(error));
        }
    });
    let (mut bytes, mut reported) = (0, Instant::now());
    Box::pin(poll_fn(move |context| {
        let next = accepted.poll_recv(context);
        if let std::task::Poll::Ready(Some(Ok(piece))) = &next {
            bytes += Bytes::len(piece) as u64;
            if reported.elapsed() >= REPORT_EVERY {
                reported = Instant::now();
                progress.report(&format!("{what}: {} MB", bytes / 1_000_000));
            }
        }
        next
    }))
}

struct TarChunkWriter {
    pieces: mpsc::Sender<io::Result<Bytes>>,
    piece: BytesMut,
}

impl TarChunkWriter {
    fn send(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, BytesMut::with_capacity(PIECE_BYTES)).freeze();
        self.pieces.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for TarChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PIECE_BYTES - self.piece.len();
        let accepted = room.min(bytes.len());
        self.piece.extend_from_slice(&bytes[..accepted]);
        if self.piece.len() == PIECE_BYTES {
            self.send()?;
        }
        Ok(accepted)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() { Ok(()) } else { self.send() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;

    #[tokio::test]
    async fn the_stream_is_the_whole_archive_however_large() {
        let dir = tempfile::tempdir().expect("a directory");
        let body: Vec<u8> = (0..3 * PIECE_BYTES + 17).map(|n| n as u8).collect();
        std::fs::write(dir.path().join("large"), &body).expect("written");
        let pieces: Vec<_> =
            tar_stream(RootTree::Directory(dir.path().into()), "x".into(), ProgressSink::default())
                .collect()
                .await;
        let whole: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.expect("packed")).collect();
        let mut archive = tar::Archive::new(whole.as_slice());
        let mut entry = archive.entries().expect("an archive").next().expect("one").expect("whole");
        let mut found = vec![];
        io::Read::read_to_end(&mut entry, &mut found).expect("in memory");
        assert_eq!(found, body);
    }

    #[tokio::test]
    async fn a_tree_that_cannot_be_read_ends_in_an_error() {
        let pieces: Vec<_> =
            tar_stream(RootTree::Directory("/nowhere/at/all".into()), "x".into(), ProgressSink::default())
                .collect()
                .await;
        assert!(matches!(pieces.last(), Some(Err(_))));
    }
}
