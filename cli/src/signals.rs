//! Signals to the command: Ctrl-C, termination, hang-up and window changes.

use std::{future::pending, io};
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserSignal {
    Interrupt,
    Terminate,
    HangUp,
    Resize,
}

/// How an interruptible wait ended.
pub enum WaitOutcome<T> {
    /// The work finished. `pressed`: the user pressed Ctrl-C meanwhile.
    Done { value: T, pressed: bool },
    /// The user pressed Ctrl-C twice or hung up; the exit code.
    Left(u8),
}

const INTERRUPTED: u8 = 130;
const HUNG_UP: u8 = 129;
const TERMINATED: u8 = 143;

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
            // Handled, so that the terminal is restored before the process ends.
            quit: if terminal { Some(signal(SignalKind::quit())?) } else { None },
        })
    }

    /// Returns the next signal. Safe to cancel: a received signal is kept.
    pub async fn next(&mut self) -> UserSignal {
        // All arms are safe to cancel: signals are kept.
        tokio::select! {
            _ = self.interrupt.recv() => UserSignal::Interrupt,
            _ = self.terminate.recv() => UserSignal::Terminate,
            _ = self.hang_up.recv() => UserSignal::HangUp,
            _ = recv_optional(&mut self.resize) => UserSignal::Resize,
            _ = recv_optional(&mut self.quit) => UserSignal::Terminate,
        }
    }

    /// Waits for a signal that ends the command, and returns the exit code for it.
    pub async fn exit_code(&mut self) -> u8 {
        loop {
            match self.next().await {
                UserSignal::Interrupt => return INTERRUPTED,
                UserSignal::Terminate => return TERMINATED,
                UserSignal::HangUp => return HUNG_UP,
                UserSignal::Resize => {}
            }
        }
    }

    /// Runs work that must not be interrupted halfway: the first Ctrl-C calls `first`, the second stops waiting.
    pub async fn wait_interruptible<T>(
        &mut self,
        work: impl Future<Output = T>,
        first: impl Fn(),
    ) -> WaitOutcome<T> {
        let mut work = std::pin::pin!(work);
        let mut pressed = false;
        loop {
            tokio::select! {
                // Safe to cancel: the future is pinned and continues.
                value = &mut work => return WaitOutcome::Done { value, pressed },
                // Safe to cancel: a received signal is kept.
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
