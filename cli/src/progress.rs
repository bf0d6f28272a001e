//! A status line on standard error for operations that take longer than half a second; erased when dropped. Without a
//! terminal, a line is printed from time to time for very long operations.

use crate::{failure::eprint_line, limits, output::Output};
use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::{Arc, Mutex},
};
use tokio::{
    task::JoinHandle,
    time::{self, Instant},
};

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// Whether the status line may be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Drawing,
    /// Not now: the cursor is in the middle of a line, or a prompt waits for its answer.
    Hidden,
    /// No more: the `Progress` was dropped.
    Finished,
}

#[derive(Debug)]
struct StatusLine {
    text: String,
    /// Start time for the elapsed time; absent: no time is shown.
    since: Option<Instant>,
    /// The line is not drawn before this time.
    quiet_until: Instant,
    mode: Mode,
    /// Whether the line is on the screen now.
    drawn: bool,
    /// Without a terminal: the last printed text, and when the next may follow.
    printed: Option<(String, Instant)>,
}

impl StatusLine {
    fn erase(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

pub struct Progress {
    prints: bool,
    line: Arc<Mutex<StatusLine>>,
    drawer: Option<JoinHandle<()>>,
}

impl Progress {
    pub fn start(output: Output, text: impl Into<String>) -> Self {
        Self::new(output, text.into(), None)
    }

    /// Starts a status line with the elapsed time.
    pub fn timed(output: Output, text: impl Into<String>) -> Self {
        Self::new(output, text.into(), Some(Instant::now()))
    }

    fn new(output: Output, text: String, since: Option<Instant>) -> Self {
        let quiet_until = Instant::now() + limits::SPINNER_AFTER;
        let line = StatusLine { text, since, quiet_until, mode: Mode::Drawing, drawn: false, printed: None };
        let line = Arc::new(Mutex::new(line));
        let visible = !output.json && io::stderr().is_terminal();
        let drawer = visible.then(|| tokio::spawn(draw(Arc::clone(&line))));
        Self { prints: !output.json && !visible, line, drawer }
    }

    /// Sets the text, and prints it where standard error is not a terminal.
    pub fn report(&self, text: &str) {
        self.set_text(text);
        let Ok(mut line) = self.line.lock() else { return };
        let now = Instant::now();
        let due = line.printed.as_ref().is_none_or(|(before, next)| before != text && now >= *next);
        if self.prints && due {
            line.printed = Some((text.to_owned(), now + limits::PROGRESS_LINE_EVERY));
            eprint_line(text);
        }
    }

    /// Sets the text, and prints it as a line of its own when it is new.
    pub fn step(&self, text: &str) {
        self.set_text(text);
        let Ok(mut line) = self.line.lock() else { return };
        let is_new = line.printed.as_ref().is_none_or(|(before, _)| before != text);
        if is_new && (self.prints || self.drawer.is_some()) {
            line.erase();
            line.printed = Some((text.to_owned(), Instant::now()));
            eprint_line(text);
        }
    }

    pub fn set_text(&self, text: impl Into<String>) {
        if let Ok(mut line) = self.line.lock() {
            line.text = text.into();
        }
    }

    /// Erases the line, runs `print`, and draws the line again after a pause.
    pub fn interrupt<T>(&self, print: impl FnOnce() -> T) -> T {
        let Ok(mut line) = self.line.lock() else { return print() };
        line.erase();
        let printed = print();
        line.quiet_until = Instant::now() + limits::SPINNER_AFTER;
        printed
    }

    /// Hides or shows the line, for example while the cursor is in the middle of other output.
    pub fn hide(&self, hidden: bool) {
        if let Ok(mut line) = self.line.lock() {
            line.mode = if hidden { Mode::Hidden } else { Mode::Drawing };
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(drawer) = self.drawer.take() {
            drawer.abort();
        }
        if let Ok(mut line) = self.line.lock() {
            line.mode = Mode::Finished;
            line.erase();
        }
    }
}

async fn draw(line: Arc<Mutex<StatusLine>>) {
    let mut ticks = time::interval(limits::SPINNER_EVERY);
    for frame in FRAMES.iter().cycle() {
        ticks.tick().await;
        let Ok(mut line) = line.lock() else { return };
        match line.mode {
            Mode::Finished => return,
            Mode::Hidden => continue,
            Mode::Drawing if Instant::now() < line.quiet_until => continue,
            Mode::Drawing => {}
        }
        line.drawn = true;
        let elapsed = line.since.map(|since| format!(" {}s", since.elapsed().as_secs())).unwrap_or_default();
        let _ = write!(io::stderr(), "\r\x1b[K{frame} {}{elapsed}", line.text);
    }
}
