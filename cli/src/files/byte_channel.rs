//! Bytes between threads that block and tasks that do not, a few chunks at a time: archives are written and read by
//! threads, HTTP bodies by tasks.

use super::Transfer;
use crate::{
    client::{ClientError, RequestBody},
    limits,
};
use bytes::{Buf as _, Bytes};
use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use std::{
    io::{self, Read, Write},
    sync::Arc,
};
use tokio::sync::mpsc;

type Chunk = Result<Bytes, io::Error>;

/// Runs `produce` on a thread, and returns what it writes as a body. Its error cuts the request, so that hostd does not
/// take a part for the whole.
pub fn body_of<F>(transfer: Arc<Transfer>, produce: F) -> RequestBody
where
    F: FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel::<Chunk>(limits::TRANSFER_CHUNKS);
    tokio::task::spawn_blocking(move || {
        let mut writer = io::BufWriter::with_capacity(limits::TRANSFER_CHUNK_BYTES, ChannelWriter(sender));
        let produced = produce(&mut writer).and_then(|()| writer.flush());
        let Ok(ChannelWriter(sender)) = writer.into_inner() else { return };
        if let Err(error) = produced {
            // Without a receiver the request has ended already.
            let _ = sender.blocking_send(Err(error));
        }
    });
    stream_body(transfer, chunks(receiver))
}

/// The bytes of a reader as a body.
pub fn body_of_reader(transfer: Arc<Transfer>, mut reader: impl Read + Send + 'static) -> RequestBody {
    body_of(transfer, move |to| io::copy(&mut reader, to).map(drop))
}

fn chunks(receiver: mpsc::Receiver<Chunk>) -> impl Stream<Item = Chunk> + Send {
    stream::unfold(receiver, |mut receiver| async move {
        let chunk = receiver.recv().await?;
        Some((chunk, receiver))
    })
}

fn stream_body(transfer: Arc<Transfer>, chunks: impl Stream<Item = Chunk> + Send + 'static) -> RequestBody {
    let frames = chunks.map(move |chunk| {
        chunk.map(|bytes| {
            transfer.add(bytes.len());
            Frame::data(bytes)
        })
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Reads a response on a thread with `consume`, which may leave the rest unread.
pub async fn read_body<T, F>(transfer: Arc<Transfer>, mut body: Incoming, consume: F) -> Result<T, ReadError>
where
    T: Send + 'static,
    F: FnOnce(&mut dyn Read) -> io::Result<T> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel::<Chunk>(limits::TRANSFER_CHUNKS);
    let consumed =
        tokio::task::spawn_blocking(move || consume(&mut ChannelReader { receiver, rest: Bytes::new() }));
    let mut lost = None;
    while let Some(frame) = body.frame().await {
        let chunk = match frame {
            Ok(frame) => Ok(frame.into_data().unwrap_or_default()),
            Err(error) => {
                lost = Some(ClientError::ConnectionLost(error));
                Err(io::ErrorKind::ConnectionAborted.into())
            }
        };
        transfer.add(chunk.as_ref().map_or(0, Bytes::len));
        if sender.send(chunk).await.is_err() || lost.is_some() {
            break;
        }
    }
    drop(sender);
    let consumed = consumed.await.map_err(|panic| ReadError::Local(io::Error::other(panic)))?;
    match (consumed, lost) {
        (_, Some(lost)) => Err(ReadError::Remote(lost)),
        (consumed, None) => consumed.map_err(ReadError::Local),
    }
}

/// Which side failed.
#[derive(Debug)]
pub enum ReadError {
    Local(io::Error),
    Remote(ClientError),
}

struct ChannelWriter(mpsc::Sender<Chunk>);

impl Write for ChannelWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = &bytes[..bytes.len().min(limits::TRANSFER_CHUNK_BYTES)];
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(taken)));
        sent.map(|()| taken.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct ChannelReader {
    receiver: mpsc::Receiver<Chunk>,
    rest: Bytes,
}

impl Read for ChannelReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.receiver.blocking_recv() {
                None => return Ok(0),
                Some(chunk) => self.rest = chunk?,
            }
        }
        let count = self.rest.len().min(buffer.len());
        self.rest.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}
