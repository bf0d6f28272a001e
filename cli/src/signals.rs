//! The signals that an attached exec is told of, and what they mean while we wait for something else.

use std::{future::pending, io};
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    Interrupt,
    Terminate,
    HangUp,
    Resize,
}

/// How waiting for something ended.
pub enum Waited<T> {
    /// `pressed`: the person did not want it any more.
    Done { value: T, pressed: bool },
    /// They did not want to wait for it either; the exit code.
    Left(u8),
}

const INTERRUPTED: u8 = 130;
const HUNG_UP: u8 = 129;

pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    resize: Option<Signal>,
    quit: Option<Signal>,
}

impl Signals {
    pub fn listen(terminal: bool) -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            resize: if terminal { Some(signal(SignalKind::window_change())?) } else { None },
            // Ours must be as it was before we end.
            quit: if terminal { Some(signal(SignalKind::quit())?) } else { None },
        })
    }

    /// Safe to cancel: a signal that came is kept until it is asked for.
    pub async fn next(&mut self) -> Received {
        // All arms are safe to cancel, as above.
        tokio::select! {
            _ = self.interrupt.recv() => Received::Interrupt,
            _ = self.terminate.recv() => Received::Terminate,
            _ = self.hang_up.recv() => Received::HangUp,
            _ = received(&mut self.resize) => Received::Resize,
            _ = received(&mut self.quit) => Received::Terminate,
        }
    }

    /// Waits for what must not be left half done: the first Ctrl-C is told, the second leaves.
    pub async fn patiently<T>(&mut self, work: impl Future<Output = T>, first: impl Fn()) -> Waited<T> {
        let mut work = std::pin::pin!(work);
        let mut pressed = false;
        loop {
            tokio::select! {
                // Pinned: it goes on where it was.
                value = &mut work => return Waited::Done { value, pressed },
                // A signal that came is kept until it is asked for.
                signal = self.next() => match signal {
                    Received::Resize => {}
                    Received::Interrupt | Received::Terminate if !pressed => {
                        pressed = true;
                        first();
                    }
                    Received::Interrupt | Received::Terminate => return Waited::Left(INTERRUPTED),
                    Received::HangUp => return Waited::Left(HUNG_UP),
                },
            }
        }
    }
}

async fn received(signal: &mut Option<Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => pending().await,
    }
}
