//! The signals that an attached exec is told of, and what they mean while we wait for something else.

use std::{future::pending, io};
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserSignal {
    Interrupt,
    Terminate,
    HangUp,
    Resize,
}

/// How waiting for something ended.
pub enum WaitOutcome<T> {
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
    pub async fn next(&mut self) -> UserSignal {
        // All arms are safe to cancel, as above.
        tokio::select! {
            _ = self.interrupt.recv() => UserSignal::Interrupt,
            _ = self.terminate.recv() => UserSignal::Terminate,
            _ = self.hang_up.recv() => UserSignal::HangUp,
            _ = recv_optional(&mut self.resize) => UserSignal::Resize,
            _ = recv_optional(&mut self.quit) => UserSignal::Terminate,
        }
    }

    /// Waits for what must not be left half done: the first Ctrl-C is told, the second leaves.
    pub async fn wait_interruptible<T>(
        &mut self,
        work: impl Future<Output = T>,
        first: impl Fn(),
    ) -> WaitOutcome<T> {
        let mut work = std::pin::pin!(work);
        let mut pressed = false;
        loop {
            tokio::select! {
                // Pinned: it goes on where it was.
                value = &mut work => return WaitOutcome::Done { value, pressed },
                // A signal that came is kept until it is asked for.
                signal = self.next() => match signal {
                    UserSignal::Resize => {}
                    UserSignal::Interrupt | UserSignal::Terminate if !pressed => {
                        pressed = true;
                        first();
                    }
                    UserSignal::Interrupt | UserSignal::Terminate => return WaitOutcome::Left(INTERRUPTED),
                    UserSignal::HangUp => return WaitOutcome::Left(HUNG_UP),
                },
            }
        }
    }
}

async fn recv_optional(signal: &mut Option<Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => pending().await,
    }
}
