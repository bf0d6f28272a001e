//! What is printed of a task, and the line that says what goes on: one after the other, never into each other.

use super::{
    fact::{is_done, result},
    render::Render,
    style::Style,
};
use crate::{
    client::ClientError,
    failure::{Failure, eprint_line},
    feed::Frame,
    output::Output,
    progress::Progress,
};
use protocol::{TaskResult, api::TaskEventView};
use std::{
    io::{IsTerminal as _, Write as _, stderr, stdout},
    sync::atomic::{AtomicBool, Ordering},
};

pub fn style(output: Output) -> Style {
    Style { output, terminal: stdout().is_terminal() }
}

pub struct Screen {
    output: Output,
    progress: Option<Progress>,
    /// A question waits for its answer: nothing is drawn over it.
    asking: AtomicBool,
}

impl Screen {
    pub fn new(output: Output) -> Self {
        let lively = !output.json && stdout().is_terminal() && stderr().is_terminal();
        Self {
            output,
            progress: lively.then(|| Progress::timed(output, "waiting")),
            asking: AtomicBool::new(false),
        }
    }

    /// Prints one event; gives the result where it is the last.
    pub fn show(&self, render: &mut Render, frame: &Frame) -> Result<Option<TaskResult>, Failure> {
        let event: TaskEventView = serde_json::from_str(&frame.data)
            .map_err(|error| ClientError::Strange(format!("event {}: {error}", frame.seq)))?;
        let last = match (is_done(&event), result(&event)) {
            (false, _) => None,
            (true, Some(result)) => Some(result),
            (true, None) => {
                return Err(ClientError::Strange("a result that cannot be read".to_owned()).into());
            }
        };
        if self.output.json {
            self.output.document(frame.data.as_bytes())?;
            return Ok(last);
        }
        let bytes = render.event(&event);
        match &self.progress {
            Some(progress) => {
                progress.interrupt(|| self.output.bytes(&bytes))?;
                progress.say(render.doing());
                let asking = self.asking.load(Ordering::Relaxed);
                progress.rest(render.is_mid_line() || last.is_some() || asking);
            }
            None => self.output.bytes(&bytes)?,
        }
        Ok(last)
    }

    /// Something of our own, on standard error.
    pub fn tell(&self, text: &str) {
        match &self.progress {
            Some(progress) => progress.interrupt(|| eprint_line(text)),
            None => eprint_line(text),
        }
    }

    /// A question, on standard error, until it is answered.
    pub fn ask(&self, text: &str) {
        self.asking.store(true, Ordering::Relaxed);
        let print = || {
            // Whoever cannot be asked does not answer.
            let mut stderr = stderr();
            let _ = write!(stderr, "{text} ").and_then(|()| stderr.flush());
        };
        match &self.progress {
            Some(progress) => {
                progress.rest(true);
                progress.interrupt(print);
            }
            None => print(),
        }
    }

    pub fn answered(&self) {
        self.asking.store(false, Ordering::Relaxed);
        if let Some(progress) = &self.progress {
            progress.rest(false);
        }
    }

    /// Nothing goes on any more, whoever still holds this.
    pub fn end(&self) {
        if let Some(progress) = &self.progress {
            progress.rest(true);
        }
    }
}
