//! What is printed of a task, and the line that says what goes on: one after the other, never into each other.

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
    /// A question waits for its answer: nothing is drawn over it.
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

    /// Prints one event; gives the result where it is the last.
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
                return Err(ClientError::UnexpectedResponse("a result that cannot be read".to_owned()).into());
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

    /// Something of our own, on standard error.
    pub fn print_message(&self, text: &str) {
        match &self.progress {
            Some(progress) => progress.interrupt(|| eprint_line(text)),
            None => eprint_line(text),
        }
    }

    /// A question, on standard error, until it is answered.
    pub fn show_prompt(&self, text: &str) {
        self.prompting.store(true, Ordering::Relaxed);
        let print = || {
            // Whoever cannot be asked does not answer.
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

    /// Nothing goes on any more, whoever still holds this.
    pub fn end(&self) {
        if let Some(progress) = &self.progress {
            progress.hide(true);
        }
    }
}
