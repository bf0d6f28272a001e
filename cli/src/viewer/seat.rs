//! Where the person sits: keys, signals, and what was shown so far. The same through all connections.

use super::escape::{Act, Escape};
use crate::{
    failure::{Failure, eprint_line},
    limits,
    signals::{Received, Signals},
    stdin,
};
use bytes::Bytes;
use std::{
    future::pending,
    io::{IsTerminal as _, stdin},
};
use tokio::sync::mpsc;

/// As typed on a terminal.
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;

pub struct Seat {
    keys: Option<mpsc::Receiver<Bytes>>,
    from_terminal: bool,
    signals: Signals,
    escape: Escape,
    /// The last byte of a pipe ended a line: then one Ctrl-D is the end, else it takes two.
    line_ended: bool,
    interrupts: u32,
    /// Typed while there was no connection.
    pub held: Vec<u8>,
    /// Position after the last byte shown.
    pub cursor: Option<u64>,
}

/// What the person wants.
#[derive(Debug, PartialEq, Eq)]
pub enum Wish {
    Type(Vec<u8>),
    Resize,
    Leave(u8),
    HangUp,
}

impl Seat {
    pub fn take(types: bool) -> Result<Self, Failure> {
        let signals = Signals::listen(true).map_err(|error| Failure::io("listen for signals", error))?;
        let from_terminal = stdin().is_terminal();
        Ok(Self {
            keys: types.then(stdin::read),
            from_terminal,
            signals,
            escape: Escape::new(from_terminal),
            line_ended: true,
            interrupts: 0,
            held: Vec::new(),
            cursor: None,
        })
    }

    /// The next wish. Safe to cancel: keys and signals are kept until they are asked for.
    pub async fn next(&mut self) -> Wish {
        loop {
            let keys = async {
                match &mut self.keys {
                    Some(keys) => keys.recv().await,
                    None => pending().await,
                }
            };
            let wish = tokio::select! {
                // Both are safe to cancel.
                keys = keys => self.typed(keys),
                signal = self.signals.next() => Some(self.signalled(signal)),
            };
            if let Some(wish) = wish {
                return wish;
            }
        }
    }

    /// The next wish that is told by a signal. Safe to cancel.
    pub async fn signal(&mut self) -> Wish {
        let signal = self.signals.next().await;
        self.signalled(signal)
    }

    fn typed(&mut self, keys: Option<Bytes>) -> Option<Wish> {
        let Some(keys) = keys else {
            self.keys = None;
            let eof = if self.line_ended { vec![CTRL_D] } else { vec![CTRL_D, CTRL_D] };
            // A terminal that is gone sends a signal too.
            return (!self.from_terminal).then_some(Wish::Type(eof));
        };
        self.line_ended = keys.last() == Some(&b'\n');
        let (send, act) = self.escape.filter(&keys);
        match act {
            Some(Act::Leave) => return Some(Wish::Leave(0)),
            Some(Act::Help) => {
                eprint_line(
                    "\r\n~.  leave; the terminal goes on\r\n~~  send one ~\r\n~?  this; all after a new line",
                );
            }
            None => {}
        }
        (!send.is_empty()).then_some(Wish::Type(send))
    }

    fn signalled(&mut self, signal: Received) -> Wish {
        match signal {
            Received::Interrupt => {
                self.interrupts += 1;
                if self.interrupts > 2 { Wish::Leave(130) } else { Wish::Type(vec![CTRL_C]) }
            }
            Received::Terminate => Wish::Leave(143),
            Received::HangUp => Wish::HangUp,
            Received::Resize => Wish::Resize,
        }
    }

    /// Waits without a connection. Keys are held for the next one, as far as there is room.
    pub async fn wait(&mut self) -> Wish {
        loop {
            match self.next().await {
                Wish::Type(keys) => {
                    let room = limits::KEYS_HELD_MAX_BYTES.saturating_sub(self.held.len());
                    self.held.extend(keys.iter().take(room));
                }
                // The size is sent with the next connection.
                Wish::Resize => {}
                wish @ (Wish::Leave(_) | Wish::HangUp) => return wish,
            }
        }
    }

    /// How many bytes were passed over, when the next one belongs there.
    pub fn moves_to(&mut self, at: u64) -> Option<u64> {
        let before = self.cursor.replace(at);
        before.and_then(|before| at.checked_sub(before)).filter(|lost| *lost > 0)
    }

    pub fn showed(&mut self, bytes: usize) {
        self.cursor = self.cursor.map(|at| at + bytes as u64);
    }
}
