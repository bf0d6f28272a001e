//! An attached exec: prints its output, sends standard input, forwards signals, until its end is known. It survives
//! restarts of hostd, because the exec has an id and the output a cursor.
//!
//! ```text
//! printer ── chunks ──▶ stdout, stderr        pump ── stdin ──▶ exec
//!      └─ end ─▶ exit code                    signals ── INT, TERM, HUP ──▶ exec
//! ```

use crate::{
    client::{ApiRequest, Client},
    exec_outcome,
    failure::{Failure, eprint_line},
    output::Output,
    output_stream::OutputStream,
    printer::{Printer, RawFlag},
    signals::{Signals, UserSignal},
    stdin,
};
use protocol::{CancelRequest, SignalRequest, SignalScope, api::ApiErrorCode};
use std::sync::Arc;
use tokio::task::{JoinHandle, block_in_place};

pub struct ExecSession {
    pub client: Arc<Client>,
    pub output: Output,
    /// `/v1/sandboxes/{id}/execs/{exec}`.
    pub path: String,
    pub send_stdin: bool,
    pub raw: RawFlag,
}

impl ExecSession {
    /// Runs the session and returns the exit code of the command.
    pub async fn run(self) -> Result<u8, Failure> {
        match self.follow().await? {
            SessionEnd::Ended { interrupted } => {
                exec_outcome::report_exit(&self.client, self.output, &self.path, interrupted).await
            }
            SessionEnd::Left(code) => Ok(code),
        }
    }

    async fn follow(&self) -> Result<SessionEnd, Failure> {
        // First: from here on Ctrl-C is for the command.
        let mut signals = Signals::listen(false).map_err(|error| Failure::io("listen for signals", error))?;
        let follow =
            OutputStream::new(Arc::clone(&self.client), &format!("{}/output", self.path), true, None);
        let mut printer = tokio::spawn(print(follow, Printer::new(self.output, self.raw)));
        let mut pump = self.pump();
        let mut interrupts = 0;
        loop {
            tokio::select! {
                // Safe to cancel: dropping the borrow does not stop the task.
                printed = &mut printer => {
                    pump.abort();
                    return self.on_output_end(flatten_join(printed), interrupts > 0).await;
                }
                // Safe to cancel, as above. After success there is no more input, so that this arm has nothing to wait for.
                pumped = &mut pump => {
                    if let Err(failure) = flatten_join(pumped) {
                        printer.abort();
                        self.cancel().await;
                        return Err(failure);
                    }
                    pump = tokio::spawn(std::future::pending());
                }
                // Safe to cancel: a received signal is kept.
                signal = signals.next() => {
                    interrupts += u32::from(signal == UserSignal::Interrupt);
                    if let Some(code) = self.forward_signal(signal, interrupts).await {
                        return Ok(SessionEnd::Left(code));
                    }
                }
            }
        }
    }

    fn pump(&self) -> JoinHandle<Result<(), Failure>> {
        if self.send_stdin {
            tokio::spawn(stdin::pump(Arc::clone(&self.client), self.path.clone()))
        } else {
            tokio::spawn(std::future::pending())
        }
    }

    /// Handles the end of the output: the last chunk was printed, or printing failed.
    async fn on_output_end(
        &self,
        printed: Result<(), Failure>,
        interrupted: bool,
    ) -> Result<SessionEnd, Failure> {
        match printed {
            Ok(()) => Ok(SessionEnd::Ended { interrupted }),
            // The sandbox was stopped: hostd knows how the command ended.
            Err(Failure::Client(error)) if error.is(ApiErrorCode::NotRunning) => {
                Ok(SessionEnd::Ended { interrupted })
            }
            Err(failure) => {
                // The reader of our output is gone: cancel the command, as SIGPIPE would.
                if failure.is_broken_pipe() {
                    self.cancel().await;
                }
                Err(failure)
            }
        }
    }

    /// Forwards a signal; returns an exit code when the user leaves the command running. Requests run in the background,
    /// so that an unresponsive hostd does not block the next Ctrl-C.
    async fn forward_signal(&self, signal: UserSignal, interrupts: u32) -> Option<u8> {
        match signal {
            UserSignal::Interrupt if interrupts > 2 => {
                eprint_line("slipway: detached; `slipway ps` shows whether the command still runs");
                return Some(130);
            }
            UserSignal::Interrupt if interrupts == 2 => {
                eprint_line("slipway: cancelling the command; Ctrl-C again leaves without waiting");
                self.send_in_background(
                    ApiRequest::post(format!("{}/cancel", self.path)).json(&CancelRequest::default()),
                );
            }
            UserSignal::Interrupt => self.send_in_background(self.signal("INT")),
            UserSignal::Terminate => self.send_in_background(self.signal("TERM")),
            // Not subscribed to.
            UserSignal::Resize => {}
            UserSignal::HangUp => {
                // Our terminal is gone, so an error cannot be shown.
                let _ = self.client.send(self.signal("HUP")).await;
                return Some(129);
            }
        }
        None
    }

    fn signal(&self, name: &str) -> ApiRequest {
        let body = SignalRequest { signal: name.to_owned(), scope: SignalScope::Group };
        ApiRequest::post(format!("{}/signal", self.path)).json(&body)
    }

    fn send_in_background(&self, request: ApiRequest) {
        let client = Arc::clone(&self.client);
        // Bounded by the timeout of the request. hostd refuses the signal when the exec has just ended.
        tokio::spawn(async move {
            if let Err(error) = client.send(request).await
                && error.api().is_none()
            {
                eprint_line(&format!("slipway: could not forward the signal: {error}"));
            }
        });
    }

    async fn cancel(&self) {
        // The error is ignored: the caller reports the failure that led to the cancellation.
        let _ = self
            .client
            .send(ApiRequest::post(format!("{}/cancel", self.path)).json(&CancelRequest::default()))
            .await;
    }
}

enum SessionEnd {
    Ended { interrupted: bool },
    Left(u8),
}

/// Prints every chunk to the stream that it came from.
pub async fn print(mut follow: OutputStream, mut printer: Printer) -> Result<(), Failure> {
    loop {
        let chunk = follow.next().await?;
        // A slow reader of our output must not block signal handling.
        let more = block_in_place(|| printer.print(&chunk))?;
        if !more {
            return Ok(());
        }
    }
}

fn flatten_join(joined: Result<Result<(), Failure>, tokio::task::JoinError>) -> Result<(), Failure> {
    joined.unwrap_or_else(|error| Err(Failure::new(format!("internal error of slipway: {error}"))))
}
