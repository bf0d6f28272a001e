//! The local side of a viewer: keys, signals, and the position of the output. Lives across connections.

use super::escape::{EscapeCommand, EscapeFilter};
use crate::{
    failure::{Failure, eprint_line},
    limits,
    signals::{Signals, UserSignal},
    stdin,
};
use bytes::Bytes;
use std::{
    future::pending,
    io::{IsTerminal as _, stdin},
};
use tokio::sync::mpsc;

/// Control characters as typed on a terminal.
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;

pub struct LocalTerminal {
    keys: Option<mpsc::Receiver<Bytes>>,
    from_terminal: bool,
    signals: Signals,
    escape: EscapeFilter,
    /// Whether the last byte of a pipe ended a line: then one Ctrl-D means end of file, else two.
    line_ended: bool,
    interrupts: u32,
    /// Keys typed without a connection.
    pub buffered_keys: Vec<u8>,
    /// Position after the last printed byte.
    pub position: Option<u64>,
}

/// Input of the user.
#[derive(Debug, PartialEq, Eq)]
pub enum InputEvent {
    Keys(Vec<u8>),
    Resize,
    Detach(u8),
    HangUp,
}

impl LocalTerminal {
    pub fn open(types: bool) -> Result<Self, Failure> {
        let signals = Signals::listen(true).map_err(|error| Failure::io("listen for signals", error))?;
        let from_terminal = stdin().is_terminal();
        Ok(Self {
            keys: types.then(stdin::read),
            from_terminal,
            signals,
            escape: EscapeFilter::new(from_terminal),
            line_ended: true,
            interrupts: 0,
            buffered_keys: Vec::new(),
            position: None,
        })
    }

    /// Returns the next input. Safe to cancel: keys and signals are kept.
    pub async fn next(&mut self) -> InputEvent {
        loop {
            let keys = async {
                match &mut self.keys {
                    Some(keys) => keys.recv().await,
                    None => pending().await,
                }
            };
            let event = tokio::select! {
                // Both are safe to cancel.
                keys = keys => self.on_keys(keys),
                signal = self.signals.next() => Some(self.on_signal(signal)),
            };
            if let Some(event) = event {
                return event;
            }
        }
    }

    /// Returns the next input from a signal. Safe to cancel.
    pub async fn signal(&mut self) -> InputEvent {
        let signal = self.signals.next().await;
        self.on_signal(signal)
    }

    fn on_keys(&mut self, keys: Option<Bytes>) -> Option<InputEvent> {
        let Some(keys) = keys else {
            self.keys = None;
            let eof = if self.line_ended { vec![CTRL_D] } else { vec![CTRL_D, CTRL_D] };
            // A closed terminal also sends SIGHUP.
            return (!self.from_terminal).then_some(InputEvent::Keys(eof));
        };
        self.line_ended = keys.last() == Some(&b'\n');
        let (send, command) = self.escape.filter(&keys);
        match command {
            Some(EscapeCommand::Detach) => return Some(InputEvent::Detach(0)),
            Some(EscapeCommand::Help) => {
                eprint_line(
                    "\r\n~.  leave; the terminal goes on\r\n~~  send one ~\r\n~?  this; all after a new line",
                );
            }
            None => {}
        }
        (!send.is_empty()).then_some(InputEvent::Keys(send))
    }

    fn on_signal(&mut self, signal: UserSignal) -> InputEvent {
        match signal {
            UserSignal::Interrupt => {
                self.interrupts += 1;
                if self.interrupts > 2 { InputEvent::Detach(130) } else { InputEvent::Keys(vec![CTRL_C]) }
            }
            UserSignal::Terminate => InputEvent::Detach(143),
            UserSignal::HangUp => InputEvent::HangUp,
            UserSignal::Resize => InputEvent::Resize,
        }
    }

    /// Waits without a connection until the user leaves. Keys are buffered up to a limit.
    pub async fn wait_disconnected(&mut self) -> InputEvent {
        loop {
            match self.next().await {
                InputEvent::Keys(keys) => self.buffer_keys(&keys),
                // The next connection sends the size.
                InputEvent::Resize => {}
                event @ (InputEvent::Detach(_) | InputEvent::HangUp) => return event,
            }
        }
    }

    /// Keeps keys for the next connection, up to a limit.
    pub fn buffer_keys(&mut self, keys: &[u8]) {
        let room = limits::KEYS_BUFFERED_MAX_BYTES.saturating_sub(self.buffered_keys.len());
        self.buffered_keys.extend(keys.iter().take(room));
    }

    /// Sets the position of the next byte; returns the number of skipped bytes, if any.
    pub fn set_position(&mut self, at: u64) -> Option<u64> {
        let before = self.position.replace(at);
        before.and_then(|before| at.checked_sub(before)).filter(|lost| *lost > 0)
    }

    pub fn advance(&mut self, bytes: usize) {
        self.position = self.position.map(|at| at + bytes as u64);
    }
}
