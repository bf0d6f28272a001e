//! A secret, and how it is read: typed without echo, from a pipe, or from a file. Never from an argument, which every
//! user of the machine can read.

use crate::{failure::Failure, limits};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use std::{
    fmt,
    fs::File,
    io::{self, IsTerminal as _, Read, Write as _},
    path::Path,
};

/// A secret, which is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

const INTERRUPT: u8 = 3;
const END: u8 = 4;
const BACKSPACE: [u8; 2] = [8, 127];

/// Reads a secret from the file (`-`: standard input), else from a prompt on the terminal, else from a pipe. Trims
/// surrounding whitespace.
pub fn read(file: Option<&Path>, question: &str) -> Result<String, Failure> {
    let text = match file {
        Some(path) if path != Path::new("-") => {
            let opened = File::open(path);
            opened.and_then(whole).map_err(|error| Failure::io(format!("read {}", path.display()), error))?
        }
        None if is_typed(file) => ask(question)?,
        Some(_) | None => whole(io::stdin()).map_err(|error| Failure::io("read standard input", error))?,
    };
    Ok(text.trim().to_owned())
}

/// Returns whether the user is prompted.
pub fn is_typed(file: Option<&Path>) -> bool {
    file.is_none() && io::stdin().is_terminal()
}

fn whole(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(limits::SECRET_MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > limits::SECRET_MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {} bytes", limits::SECRET_MAX_BYTES)));
    }
    Ok(text)
}

/// A terminal without echo; restored when dropped.
struct NoEcho {
    before: Termios,
}

impl NoEcho {
    /// Disables echo, line mode and signals. Ctrl-C is read as a key, so that the terminal is always restored.
    fn enter() -> nix::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut no_echo = before.clone();
        no_echo.local_flags.remove(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG);
        tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &no_echo)?;
        Ok(Self { before })
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &self.before);
    }
}

fn ask(question: &str) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::io("ask for the key", error);
    let no_echo = NoEcho::enter().map_err(|errno| failed(errno.into()))?;
    let mut terminal = io::stderr();
    let _ = write!(terminal, "{question}").and_then(|()| terminal.flush());
    let typed = line(io::stdin().lock().bytes());
    drop(no_echo);
    let _ = writeln!(terminal);
    typed.map_err(failed)
}

fn line(keys: impl Iterator<Item = io::Result<u8>>) -> io::Result<String> {
    let mut typed = Vec::new();
    for key in keys {
        match key? {
            b'\r' | b'\n' | END => break,
            INTERRUPT => return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted")),
            key if BACKSPACE.contains(&key) => drop(typed.pop()),
            key if (typed.len() as u64) < limits::SECRET_MAX_BYTES => typed.push(key),
            _ => return Err(io::Error::other(format!("more than {} bytes", limits::SECRET_MAX_BYTES))),
        }
    }
    String::from_utf8(typed).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_ends_with_the_line_and_can_be_corrected() {
        let typed = |keys: &str| line(keys.bytes().map(Ok)).map_err(|error| error.kind());
        assert_eq!(typed("ab\rc").as_deref(), Ok("ab"));
        assert_eq!(typed("abx\u{7f}\u{7f}\u{7f}\u{7f}c\n").as_deref(), Ok("c"));
        assert_eq!(typed("ab\u{4}").as_deref(), Ok("ab"));
        assert_eq!(typed("ab\u{3}c\n"), Err(io::ErrorKind::Interrupted));
        assert!(typed(&"x".repeat(100_000)).is_err());
    }
}
