//! One task as its caller lives it: events shown, Ctrl-C understood, until its end is seen.
//!
//! ```text
//! watch ── events ──▶ stdout          Ctrl-C ── cancel, then leave (`run`); leave (`follow`)
//!   └─ done ─▶ result
//! ```

use super::{
    end,
    screen::Screen,
    submit::{TaskRef, cancel},
    watch::{View, watch},
};
use crate::{
    context::Context,
    failure::Failure,
    signals::{Received, Signals},
};
use protocol::TaskResult;
use std::sync::Arc;

/// What Ctrl-C means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attention {
    /// The task is ours: the first cancels it and waits for its end, the second leaves.
    Owner,
    /// The same, and the first was pressed already.
    Unwanted,
    /// We only look: the first leaves.
    Viewer,
}

#[derive(Debug)]
pub enum Attended {
    Ended(Box<TaskResult>),
    /// The task may go on; the exit code.
    Left(u8),
}

const HUNG_UP: u8 = 129;

pub async fn attend(
    context: &Context,
    task: &TaskRef,
    since: Option<u64>,
    attention: Attention,
    signals: &mut Signals,
) -> Result<Attended, Failure> {
    let screen = Arc::new(Screen::new(context.output));
    let view = View {
        client: Arc::clone(&context.client),
        output: context.output,
        screen: Arc::clone(&screen),
        task: task.clone(),
        since,
    };
    let mut watching = tokio::spawn(watch(view));
    let mut cancelling: Option<Cancelling<'_>> = None;
    if attention == Attention::Unwanted {
        cancelling = Some(Box::pin(cancel(context, task)));
    }
    loop {
        tokio::select! {
            // A task is not cancelled by not being looked at.
            watched = &mut watching => return ended(context, task, attention, flat(watched)).await,
            // A request that is waited for beside: it goes on where it was.
            failure = failed(&mut cancelling) => {
                failure.tell(context.output.json);
                cancelling = None;
            }
            // A signal that came is kept until it is asked for.
            signal = signals.next() => match pressed(signal, attention, cancelling.is_some()) {
                Pressed::Nothing => {}
                Pressed::Cancel => {
                    screen.tell("slipway: cancelling the task; Ctrl-C again leaves without waiting");
                    cancelling = Some(Box::pin(cancel(context, task)));
                }
                Pressed::Leave(code) => {
                    watching.abort();
                    screen.tell(&format!("slipway: left it; `{}` comes back", task.way_back()));
                    screen.end();
                    return Ok(Attended::Left(code));
                }
            },
        }
    }
}

type Cancelling<'a> =
    std::pin::Pin<Box<dyn Future<Output = Result<crate::client::Answer, crate::client::ClientError>> + 'a>>;

/// Waits for ever while nothing is asked for, and when it was taken.
async fn failed(cancelling: &mut Option<Cancelling<'_>>) -> Failure {
    let asked = match cancelling {
        Some(cancelling) => cancelling.await,
        None => std::future::pending().await,
    };
    match asked {
        Ok(_) => {
            *cancelling = Some(Box::pin(std::future::pending()));
            std::future::pending().await
        }
        Err(error) => error.into(),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Pressed {
    Nothing,
    Cancel,
    Leave(u8),
}

fn pressed(signal: Received, attention: Attention, cancelling: bool) -> Pressed {
    match (signal, attention) {
        (Received::Resize, _) => Pressed::Nothing,
        // Nobody sees it any more, and it goes on.
        (Received::HangUp, _) => Pressed::Leave(HUNG_UP),
        (Received::Interrupt | Received::Terminate, Attention::Owner | Attention::Unwanted)
            if !cancelling =>
        {
            Pressed::Cancel
        }
        (Received::Interrupt | Received::Terminate, _) => Pressed::Leave(end::CANCELLED),
    }
}

async fn ended(
    context: &Context,
    task: &TaskRef,
    attention: Attention,
    watched: Result<TaskResult, Failure>,
) -> Result<Attended, Failure> {
    match watched {
        Ok(result) => Ok(Attended::Ended(Box::new(result))),
        Err(failure) => {
            // Nobody reads any more: it would run for nobody, as after SIGPIPE.
            if failure.is_broken_pipe() && attention != Attention::Viewer {
                let _ = cancel(context, task).await;
            }
            Err(failure)
        }
    }
}

fn flat(joined: Result<Result<TaskResult, Failure>, tokio::task::JoinError>) -> Result<TaskResult, Failure> {
    joined.unwrap_or_else(|error| Err(Failure::refused(format!("a part of slipway broke: {error}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_presses_what_gets_what() {
        let table = [
            (Received::Interrupt, Attention::Owner, false, Pressed::Cancel),
            (Received::Interrupt, Attention::Owner, true, Pressed::Leave(130)),
            (Received::Interrupt, Attention::Viewer, false, Pressed::Leave(130)),
            (Received::Terminate, Attention::Owner, false, Pressed::Cancel),
            (Received::HangUp, Attention::Owner, false, Pressed::Leave(129)),
            (Received::Resize, Attention::Owner, true, Pressed::Nothing),
        ];
        for (signal, attention, cancelling, expected) in table {
            assert_eq!(
                pressed(signal, attention, cancelling),
                expected,
                "{signal:?} {attention:?} {cancelling}"
            );
        }
    }
}
