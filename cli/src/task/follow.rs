//! Follows a task to its end: prints its events and handles Ctrl-C.
//!
//! ```text
//! print_events ── events ──▶ stdout          Ctrl-C ── cancel, then leave (`run`); leave (`follow`)
//!   └─ done ─▶ result
//! ```

use super::{
    exit_code,
    print_events::EventPrinter,
    screen::Screen,
    submit::{TaskRef, cancel},
};
use crate::{
    context::Context,
    failure::Failure,
    signals::{Signals, UserSignal},
};
use protocol::TaskResult;
use std::sync::Arc;

/// The effect of Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInterrupt {
    /// The first cancels the task and waits for its end, the second leaves. For `run`.
    CancelTask,
    /// As `CancelTask`, when the first was pressed before the task was submitted.
    CancelAlready,
    /// The first leaves; the task keeps running. For `task follow`.
    Leave,
}

#[derive(Debug)]
pub enum FollowEnd {
    Ended(Box<TaskResult>),
    /// The user left and the task may still run; the exit code.
    Left(u8),
}

const HUNG_UP: u8 = 129;

pub async fn follow(
    context: &Context,
    task: &TaskRef,
    since: Option<u64>,
    on_interrupt: OnInterrupt,
    signals: &mut Signals,
) -> Result<FollowEnd, Failure> {
    let screen = Arc::new(Screen::new(context.output));
    let printer = EventPrinter {
        client: Arc::clone(&context.client),
        output: context.output,
        screen: Arc::clone(&screen),
        task: task.clone(),
        since,
    };
    let mut printing = tokio::spawn(printer.run());
    let mut cancelling: Option<Cancelling<'_>> = None;
    if on_interrupt == OnInterrupt::CancelAlready {
        cancelling = Some(Box::pin(cancel(context, task)));
    }
    loop {
        tokio::select! {
            // Safe to cancel: dropping the borrow does not stop the task.
            printed = &mut printing => return ended(context, task, on_interrupt, flatten_join(printed)).await,
            // Safe to cancel: the boxed request continues.
            failure = cancel_failure(&mut cancelling) => {
                failure.report(context.output.json);
                cancelling = None;
            }
            // Safe to cancel: a received signal is kept.
            signal = signals.next() => match action_for(signal, on_interrupt, cancelling.is_some()) {
                SignalAction::Ignore => {}
                SignalAction::Cancel => {
                    screen.print_message("slipway: cancelling the task; Ctrl-C again leaves without waiting");
                    cancelling = Some(Box::pin(cancel(context, task)));
                }
                SignalAction::Leave(code) => {
                    printing.abort();
                    screen.print_message(&format!("slipway: detached; follow the task again with `{}`", task.follow_command()));
                    screen.end();
                    return Ok(FollowEnd::Left(code));
                }
            },
        }
    }
}

type Cancelling<'a> = std::pin::Pin<
    Box<dyn Future<Output = Result<crate::client::ApiResponse, crate::client::ClientError>> + 'a>,
>;

/// Returns when the cancel request fails; pending while there is none, and after it succeeded.
async fn cancel_failure(cancelling: &mut Option<Cancelling<'_>>) -> Failure {
    let sent = match cancelling {
        Some(cancelling) => cancelling.await,
        None => std::future::pending().await,
    };
    match sent {
        Ok(_) => {
            *cancelling = Some(Box::pin(std::future::pending()));
            std::future::pending().await
        }
        Err(error) => error.into(),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum SignalAction {
    Ignore,
    Cancel,
    Leave(u8),
}

fn action_for(signal: UserSignal, on_interrupt: OnInterrupt, cancelling: bool) -> SignalAction {
    match (signal, on_interrupt) {
        (UserSignal::Resize, _) => SignalAction::Ignore,
        // Our terminal is gone; the task keeps running.
        (UserSignal::HangUp, _) => SignalAction::Leave(HUNG_UP),
        (
            UserSignal::Interrupt | UserSignal::Terminate,
            OnInterrupt::CancelTask | OnInterrupt::CancelAlready,
        ) if !cancelling => SignalAction::Cancel,
        (UserSignal::Interrupt | UserSignal::Terminate, _) => SignalAction::Leave(exit_code::CANCELLED),
    }
}

async fn ended(
    context: &Context,
    task: &TaskRef,
    on_interrupt: OnInterrupt,
    printed: Result<TaskResult, Failure>,
) -> Result<FollowEnd, Failure> {
    match printed {
        Ok(result) => Ok(FollowEnd::Ended(Box::new(result))),
        Err(failure) => {
            // The reader of our output is gone: cancel the task, as SIGPIPE would.
            if failure.is_broken_pipe() && on_interrupt != OnInterrupt::Leave {
                let _ = cancel(context, task).await;
            }
            Err(failure)
        }
    }
}

fn flatten_join(
    joined: Result<Result<TaskResult, Failure>, tokio::task::JoinError>,
) -> Result<TaskResult, Failure> {
    joined.unwrap_or_else(|error| Err(Failure::new(format!("internal error of slipway: {error}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_cancels_or_leaves() {
        let table = [
            (UserSignal::Interrupt, OnInterrupt::CancelTask, false, SignalAction::Cancel),
            (UserSignal::Interrupt, OnInterrupt::CancelTask, true, SignalAction::Leave(130)),
            (UserSignal::Interrupt, OnInterrupt::Leave, false, SignalAction::Leave(130)),
            (UserSignal::Terminate, OnInterrupt::CancelTask, false, SignalAction::Cancel),
            (UserSignal::HangUp, OnInterrupt::CancelTask, false, SignalAction::Leave(129)),
            (UserSignal::Resize, OnInterrupt::CancelTask, true, SignalAction::Ignore),
        ];
        for (signal, on_interrupt, cancelling, expected) in table {
            assert_eq!(
                action_for(signal, on_interrupt, cancelling),
                expected,
                "{signal:?} {on_interrupt:?} {cancelling}"
            );
        }
    }
}
