//! One exec as its caller lives it: output printed, input sent, signals passed on, until its end is
//! known. hostd may restart meanwhile: the exec has an id, the output a cursor.
//!
//! ```text
//! printer ── chunks ──▶ stdout, stderr        pump ── stdin ──▶ exec
//!      └─ end ─▶ exit code                    signals ── INT, TERM, HUP, WINCH ──▶ exec
//! ```

use crate::{
    client::{Answer, Ask, Client},
    exit,
    failure::{Failure, eprint_line},
    follow::{Follow, payload_bytes},
    limits,
    output::Output,
    patience::Patience,
    signals::{Received, Signals},
    stdin,
    terminal::{self, RawMode},
};
use protocol::{
    CancelRequest, Chunk, Exit, Hint, Scope, SignalRequest, Stream,
    api::{ApiErrorCode, ExecAnswer},
};
use std::{io::Write as _, sync::Arc};
use tokio::{
    task::{JoinHandle, block_in_place},
    time::{Instant, sleep},
};

pub struct Session {
    pub client: Arc<Client>,
    pub output: Output,
    /// `/v1/sandboxes/{id}/execs/{exec}`.
    pub path: String,
    pub send_stdin: bool,
    pub terminal: bool,
}

impl Session {
    /// Gives the exit code of the command.
    pub async fn run(self) -> Result<u8, Failure> {
        let cannot = |error| Failure::io("switch the terminal to raw mode", error);
        let raw =
            if self.terminal && self.send_stdin { Some(RawMode::enter().map_err(cannot)?) } else { None };
        let attended = self.attend().await;
        drop(raw);
        match attended? {
            Attended::Ended { interrupted } => self.conclude(interrupted).await,
            Attended::Left(code) => Ok(code),
        }
    }

    async fn attend(&self) -> Result<Attended, Failure> {
        // First: from here on Ctrl-C means the command and not us.
        let mut signals =
            Signals::listen(self.terminal).map_err(|error| Failure::io("listen for signals", error))?;
        let follow = Follow::new(Arc::clone(&self.client), &format!("{}/output", self.path), true, None);
        let mut printer = tokio::spawn(print(follow, self.output));
        let mut pump = self.pump();
        let mut interrupts = 0;
        loop {
            tokio::select! {
                // A task is not cancelled by not being looked at.
                printed = &mut printer => {
                    pump.abort();
                    return self.printed(flat(printed), interrupts > 0).await;
                }
                // The same. When it ended well there is no more input, and nothing more to wait for here.
                pumped = &mut pump => {
                    if let Err(failure) = flat(pumped) {
                        printer.abort();
                        self.cancel().await;
                        return Err(failure);
                    }
                    pump = tokio::spawn(std::future::pending());
                }
                // A signal that came is kept until it is asked for.
                signal = signals.next() => {
                    interrupts += u32::from(signal == Received::Interrupt);
                    if let Some(code) = self.pass_on(signal, interrupts).await {
                        return Ok(Attended::Left(code));
                    }
                }
            }
        }
    }

    fn pump(&self) -> JoinHandle<Result<(), Failure>> {
        if self.send_stdin {
            tokio::spawn(stdin::pump(Arc::clone(&self.client), self.path.clone(), self.terminal))
        } else {
            tokio::spawn(std::future::pending())
        }
    }

    /// The last chunk was printed, or printing failed.
    async fn printed(&self, printed: Result<(), Failure>, interrupted: bool) -> Result<Attended, Failure> {
        match printed {
            Ok(()) => Ok(Attended::Ended { interrupted }),
            // The sandbox was stopped: hostd knows what became of the command.
            Err(Failure::Client(error)) if error.is(ApiErrorCode::NotRunning) => {
                Ok(Attended::Ended { interrupted })
            }
            Err(failure) => {
                // Nobody reads any more: it would run for nobody, as after SIGPIPE.
                if failure.is_broken_pipe() {
                    self.cancel().await;
                }
                Err(failure)
            }
        }
    }

    /// Gives a code when the command is to be left alone. Requests run beside: a hostd that does not
    /// answer must not make us deaf to the next Ctrl-C.
    async fn pass_on(&self, signal: Received, interrupts: u32) -> Option<u8> {
        match signal {
            Received::Interrupt if interrupts > 2 => {
                eprint_line("slipway: left it; `slipway ps` shows whether it still runs");
                return Some(130);
            }
            Received::Interrupt if interrupts == 2 => {
                eprint_line("slipway: cancelling; once more leaves without waiting");
                self.beside(Ask::post(format!("{}/cancel", self.path)).json(&CancelRequest::default()));
            }
            Received::Interrupt => self.beside(self.signal("INT")),
            Received::Terminate => self.beside(self.signal("TERM")),
            Received::Resize => {
                self.beside(Ask::post(format!("{}/resize", self.path)).json(&terminal::size()));
            }
            Received::HangUp => {
                // Our terminal is gone. Nobody can be told when this fails.
                let _ = self.client.send(self.signal("HUP")).await;
                return Some(129);
            }
        }
        None
    }

    fn signal(&self, name: &str) -> Ask {
        let body = SignalRequest { signal: name.to_owned(), scope: Scope::Group };
        Ask::post(format!("{}/signal", self.path)).json(&body)
    }

    fn beside(&self, ask: Ask) {
        let client = Arc::clone(&self.client);
        // Bounded by the deadline of the request. An exec that has just ended refuses it, rightly.
        tokio::spawn(async move {
            if let Err(error) = client.send(ask).await
                && error.api().is_none()
            {
                eprint_line(&format!("slipway: could not pass the signal on: {error}"));
            }
        });
    }

    async fn cancel(&self) {
        // What comes next tells of the failure that made us cancel; a second one would only hide it.
        let _ = self
            .client
            .send(Ask::post(format!("{}/cancel", self.path)).json(&CancelRequest::default()))
            .await;
    }

    /// Says what the exit code alone does not tell.
    async fn conclude(&self, interrupted: bool) -> Result<u8, Failure> {
        let (answer, ended, hints) = self.ended().await?;
        if self.output.json {
            self.output.document(&answer.body)?;
        }
        let code = exit::code(&ended, interrupted);
        let hints = hints.iter().filter_map(|hint| exit::hint(hint, code != 0));
        for line in exit::message(&ended).into_iter().chain(hints) {
            eprint_line(&format!("slipway: {line}"));
        }
        Ok(code)
    }

    /// Asks how it ended. When the sandbox went away under it, that is known only a moment later.
    async fn ended(&self) -> Result<(Answer, Exit, Vec<Hint>), Failure> {
        let deadline = Instant::now() + limits::END_KNOWN_WITHIN;
        let mut patience = Patience::new();
        loop {
            let answer = match self.client.send(Ask::get(&self.path)).await {
                Ok(answer) => answer,
                Err(error) => {
                    patience.wait(error).await?;
                    continue;
                }
            };
            let exec: ExecAnswer = answer.parse()?;
            match exec.exit {
                Some(exit) => return Ok((answer, exit, exec.hints)),
                None if Instant::now() < deadline => sleep(limits::SETTLE_POLL).await,
                None => {
                    return Err(Failure::refused(
                        "the sandbox does not run, and how the command ended is not known",
                    )
                    .or("`slipway start` the sandbox, then `slipway ps` shows it"));
                }
            }
        }
    }
}

enum Attended {
    Ended { interrupted: bool },
    Left(u8),
}

/// Prints every chunk to the stream it came from.
pub async fn print(mut follow: Follow, output: Output) -> Result<(), Failure> {
    loop {
        let chunk = follow.next().await?;
        // A slow reader of our output must not stop signals from being seen.
        let more = block_in_place(|| print_chunk(&chunk, output))?;
        if !more {
            return Ok(());
        }
    }
}

fn print_chunk(chunk: &Chunk, output: Output) -> Result<bool, Failure> {
    if output.json {
        output.json(chunk)?;
    }
    match chunk {
        Chunk::End { .. } => return Ok(false),
        Chunk::Gap { lost, .. } => eprint_line(&format!("slipway: {lost} bytes of output are missing here")),
        Chunk::Output { .. } if output.json => {}
        Chunk::Output { stream: Stream::Stderr, payload, .. } => {
            // Where nobody hears our errors, nobody misses these.
            let _ = std::io::stderr().write_all(&payload_bytes(payload)?);
        }
        Chunk::Output { stream: Stream::Stdout | Stream::Pty, payload, .. } => {
            output.bytes(&payload_bytes(payload)?)?;
        }
    }
    Ok(true)
}

fn flat(joined: Result<Result<(), Failure>, tokio::task::JoinError>) -> Result<(), Failure> {
    joined.unwrap_or_else(|error| Err(Failure::refused(format!("a part of slipway broke: {error}"))))
}
