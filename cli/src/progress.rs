//! A line on standard error that says what is going on. Only on a terminal, only when it takes longer
//! than half a second, and gone when dropped.

use crate::{limits, output::Output};
use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::{Arc, Mutex},
};
use tokio::{task::JoinHandle, time};

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

#[derive(Debug)]
struct Line {
    text: String,
    drawn: bool,
    over: bool,
}

pub struct Progress {
    line: Arc<Mutex<Line>>,
    drawer: Option<JoinHandle<()>>,
}

impl Progress {
    pub fn start(output: Output, text: impl Into<String>) -> Self {
        let line = Arc::new(Mutex::new(Line { text: text.into(), drawn: false, over: false }));
        let visible = !output.json && io::stderr().is_terminal();
        let drawer = visible.then(|| tokio::spawn(draw(Arc::clone(&line))));
        Self { line, drawer }
    }

    pub fn say(&self, text: impl Into<String>) {
        if let Ok(mut line) = self.line.lock() {
            line.text = text.into();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(drawer) = self.drawer.take() {
            drawer.abort();
        }
        if let Ok(mut line) = self.line.lock() {
            line.over = true;
            if line.drawn {
                let _ = write!(io::stderr(), "\r\x1b[K");
            }
        }
    }
}

async fn draw(line: Arc<Mutex<Line>>) {
    time::sleep(limits::SPINNER_AFTER).await;
    let mut ticks = time::interval(limits::SPINNER_EVERY);
    for frame in FRAMES.iter().cycle() {
        ticks.tick().await;
        let Ok(mut line) = line.lock() else { return };
        if line.over {
            return;
        }
        line.drawn = true;
        let _ = write!(io::stderr(), "\r\x1b[K{frame} {}", line.text);
    }
}
