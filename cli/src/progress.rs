//! A line on standard error that says what is going on. Only when it takes longer than half a second, and
//! gone when dropped. Where there is no terminal, a line now and then about what takes very long.

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
    /// Not for now: the cursor is in the middle of a line, or a prompt waits for its answer.
    Hidden,
    /// Never again: the progress was dropped.
    Finished,
}

#[derive(Debug)]
struct StatusLine {
    text: String,
    /// Shown with the time since then.
    since: Option<Instant>,
    /// Nothing is drawn before.
    quiet_until: Instant,
    mode: Mode,
    /// Whether the line is on the screen now.
    drawn: bool,
    /// What was printed last where there is no terminal, and when the next may be.
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

    /// One that tells how long it has been going on.
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

    /// What a sandbox is busy with; without a terminal, too.
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

    pub fn set_text(&self, text: impl Into<String>) {
        if let Ok(mut line) = self.line.lock() {
            line.text = text.into();
        }
    }

    /// Prints something else in its place; it is drawn again after a while of silence.
    pub fn interrupt<T>(&self, print: impl FnOnce() -> T) -> T {
        let Ok(mut line) = self.line.lock() else { return print() };
        line.erase();
        let printed = print();
        line.quiet_until = Instant::now() + limits::SPINNER_AFTER;
        printed
    }

    /// Whether it must not be drawn, as in the middle of a line.
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
