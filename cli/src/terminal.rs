//! The local terminal: its size, raw mode, and colours that a command left active.

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use protocol::TtySize;
use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::atomic::{AtomicBool, Ordering},
};

const SIZE_UNKNOWN: TtySize = TtySize { cols: 80, rows: 24 };

pub fn size() -> TtySize {
    crate::winsize::of(&io::stdout()).or_else(|| crate::winsize::of(&io::stdin())).unwrap_or(SIZE_UNKNOWN)
}

/// Returns the environment variables that describe our terminal. Not COLUMNS and LINES: the terminal has its size. Not
/// LANG: the image may lack our locale, and its own is UTF-8.
pub fn environment() -> Vec<(String, String)> {
    let told = |name: &str| {
        Some((name.to_owned(), std::env::var(name).ok()?)).filter(|(_, value)| !value.is_empty())
    };
    ["TERM", "COLORTERM"].into_iter().filter_map(told).collect()
}

static RAW: AtomicBool = AtomicBool::new(false);

pub fn is_raw() -> bool {
    RAW.load(Ordering::Relaxed)
}

static COLOURED: AtomicBool = AtomicBool::new(false);

/// Records whether output of a command left a colour active.
pub fn set_coloured(coloured: bool) {
    COLOURED.store(coloured, Ordering::Relaxed);
}

/// Resets colours that a command left active on our terminal.
pub fn reset_colours() {
    if COLOURED.swap(false, Ordering::Relaxed) {
        let reset = b"\x1b[0m";
        // Write errors are ignored.
        let _ = if io::stdout().is_terminal() {
            io::stdout().write_all(reset).and_then(|()| io::stdout().flush())
        } else {
            io::stderr().write_all(reset)
        };
    }
}

pub struct RawMode {
    before: Option<Termios>,
}

impl RawMode {
    /// Enters raw mode; does nothing where standard input is not a terminal.
    pub fn enter() -> io::Result<Self> {
        if !io::stdin().is_terminal() {
            return Ok(Self { before: None });
        }
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(io::stdin(), SetArg::TCSADRAIN, &raw)?;
        RAW.store(true, Ordering::Relaxed);
        Ok(Self { before: Some(before) })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, before);
            RAW.store(false, Ordering::Relaxed);
        }
    }
}
