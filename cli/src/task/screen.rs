//! Serializes output about a task: events, messages, prompts and the status line never mix.

use super::{
    parse_event::{is_done, result},
    render::EventRenderer,
    style::Style,
};
use crate::{
    client::ClientError,
    event_stream::EventFrame,
    failure::{Failure, eprint_line},
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
    /// Whether a prompt waits for its answer: nothing is drawn over it.
    prompting: AtomicBool,
}

impl Screen {
    pub fn new(output: Output) -> Self {
        let lively = !output.json && stdout().is_terminal() && stderr().is_terminal();
        Self {
            output,
            progress: lively.then(|| Progress::timed(output, "waiting")),
            prompting: AtomicBool::new(false),
        }
    }

    /// Prints an event; returns the result where it is the last.
    pub fn print_event(
        &self,
        render: &mut EventRenderer,
        frame: &EventFrame,
    ) -> Result<Option<TaskResult>, Failure> {
        let event: TaskEventView = serde_json::from_str(&frame.data)
            .map_err(|error| ClientError::UnexpectedResponse(format!("event {}: {error}", frame.seq)))?;
        let last = match (is_done(&event), result(&event)) {
            (false, _) => None,
            (true, Some(result)) => Some(result),
            (true, None) => {
                return Err(
                    ClientError::UnexpectedResponse("a result that cannot be parsed".to_owned()).into()
                );
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
                progress.set_text(render.current_activity());
                let prompting = self.prompting.load(Ordering::Relaxed);
                progress.hide(render.is_mid_line() || last.is_some() || prompting);
            }
            None => self.output.bytes(&bytes)?,
        }
        Ok(last)
    }

    /// Prints a message on standard error.
    pub fn print_message(&self, text: &str) {
        match &self.progress {
            Some(progress) => progress.interrupt(|| eprint_line(text)),
            None => eprint_line(text),
        }
    }

    /// Shows a prompt on standard error until [`Screen::prompt_done`].
    pub fn show_prompt(&self, text: &str) {
        self.prompting.store(true, Ordering::Relaxed);
        let print = || {
            // A write error is ignored: then no answer comes.
            let mut stderr = stderr();
            let _ = write!(stderr, "{text} ").and_then(|()| stderr.flush());
        };
        match &self.progress {
            Some(progress) => {
                progress.hide(true);
                progress.interrupt(print);
            }
            None => print(),
        }
    }

    pub fn prompt_done(&self) {
        self.prompting.store(false, Ordering::Relaxed);
        if let Some(progress) = &self.progress {
            progress.hide(false);
        }
    }

    /// Hides the status line for good, although other owners of the screen remain.
    pub fn end(&self) {
        if let Some(progress) = &self.progress {
            progress.hide(true);
        }
    }
}
