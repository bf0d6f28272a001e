//! The signals that an attached exec is told of.

use std::{future::pending, io};
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    Interrupt,
    Terminate,
    HangUp,
    Resize,
}

pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    resize: Option<Signal>,
}

impl Signals {
    pub fn listen(terminal: bool) -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            resize: if terminal { Some(signal(SignalKind::window_change())?) } else { None },
        })
    }

    /// Safe to cancel: a signal that came is kept until it is asked for.
    pub async fn next(&mut self) -> Received {
        let resized = async {
            match &mut self.resize {
                Some(resize) => resize.recv().await,
                None => pending().await,
            }
        };
        // All arms are safe to cancel, as above.
        tokio::select! {
            _ = self.interrupt.recv() => Received::Interrupt,
            _ = self.terminate.recv() => Received::Terminate,
            _ = self.hang_up.recv() => Received::HangUp,
            _ = resized => Received::Resize,
        }
    }
}
