//! The way between a verb on a thread and the task of its request.

use bytes::Bytes;
use files::Exchange;
use protocol::files::{FilesFailure, FilesReply};
use std::{
    io::{self, PipeReader},
    os::fd::{AsFd, BorrowedFd},
};
use tokio::sync::{mpsc, oneshot};

/// Chunks that wait on either side.
const CHUNKS_WAITING: usize = 4;

/// A part of the request's body. Only `End` ends it: a channel that closes is a caller that is gone.
pub enum BodyPart {
    Data(Bytes),
    End,
}

/// A part of what follows the reply. Only `End` ends it.
pub enum DataPart {
    Data(Bytes),
    End,
    Failed(FilesFailure),
}

/// The verb's side.
pub struct ThreadExchange {
    body: mpsc::Receiver<BodyPart>,
    body_ended: bool,
    reply: Option<oneshot::Sender<Result<FilesReply, FilesFailure>>>,
    data: mpsc::Sender<DataPart>,
    /// Closed with the caller.
    hung_up: Option<PipeReader>,
}

/// The request's side.
pub struct RequestSide {
    pub body: mpsc::Sender<BodyPart>,
    pub reply: oneshot::Receiver<Result<FilesReply, FilesFailure>>,
    pub data: mpsc::Receiver<DataPart>,
}

pub fn channel(hung_up: Option<PipeReader>) -> (ThreadExchange, RequestSide) {
    let (body_sender, body) = mpsc::channel(CHUNKS_WAITING);
    let (data, data_receiver) = mpsc::channel(CHUNKS_WAITING);
    let (reply, reply_receiver) = oneshot::channel();
    let exchange = ThreadExchange { body, body_ended: false, reply: Some(reply), data, hung_up };
    (exchange, RequestSide { body: body_sender, reply: reply_receiver, data: data_receiver })
}

impl ThreadExchange {
    /// Tells the request how the verb ended.
    pub fn finish(mut self, ended: Result<(), FilesFailure>) {
        // The request may be gone.
        match (ended, self.reply.take()) {
            (Ok(()), _) => drop(self.data.blocking_send(DataPart::End)),
            (Err(failure), Some(reply)) => drop(reply.send(Err(failure))),
            (Err(failure), None) => drop(self.data.blocking_send(DataPart::Failed(failure))),
        }
    }
}

impl Exchange for ThreadExchange {
    fn receive(&mut self) -> io::Result<Option<Bytes>> {
        if self.body_ended {
            return Ok(None);
        }
        match self.body.blocking_recv() {
            Some(BodyPart::Data(bytes)) => Ok(Some(bytes)),
            Some(BodyPart::End) => {
                self.body_ended = true;
                Ok(None)
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn reply(&mut self, reply: FilesReply) -> io::Result<()> {
        let sender = self.reply.take().ok_or_else(|| io::Error::other("replied already"))?;
        sender.send(Ok(reply)).map_err(|_| gone())
    }

    fn send(&mut self, bytes: Bytes) -> io::Result<()> {
        self.data.blocking_send(DataPart::Data(bytes)).map_err(|_| gone())
    }

    fn is_cancelled(&self) -> bool {
        self.data.is_closed()
    }

    fn cancel_fd(&self) -> Option<BorrowedFd<'_>> {
        self.hung_up.as_ref().map(AsFd::as_fd)
    }
}

fn gone() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}
