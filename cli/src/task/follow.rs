//! One task as its caller lives it: events shown, Ctrl-C understood, until its end is seen.
//!
//! ```text
//! watch ── events ──▶ stdout          Ctrl-C ── cancel, then leave (`run`); leave (`follow`)
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

/// What Ctrl-C means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInterrupt {
    /// The task is ours: the first cancels it and waits for its end, the second leaves.
    CancelTask,
    /// The same, and the first was pressed already.
    CancelAlready,
    /// We only look: the first leaves.
    Leave,
}

#[derive(Debug)]
pub enum FollowEnd {
    Ended(Box<TaskResult>),
    /// The task may go on; the exit code.
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
            // A task is not cancelled by not being looked at.
            printed = &mut printing => return ended(context, task, on_interrupt, flatten_join(printed)).await,
            // A request that is waited for beside: it goes on where it was.
            failure = cancel_failure(&mut cancelling) => {
                failure.report(context.output.json);
                cancelling = None;
            }
            // A signal that came is kept until it is asked for.
            signal = signals.next() => match action_for(signal, on_interrupt, cancelling.is_some()) {
                SignalAction::Ignore => {}
                SignalAction::Cancel => {
                    screen.print_message("slipway: cancelling the task; Ctrl-C again leaves without waiting");
                    cancelling = Some(Box::pin(cancel(context, task)));
                }
                SignalAction::Leave(code) => {
                    printing.abort();
                    screen.print_message(&format!("slipway: left it; `{}` comes back", task.follow_command()));
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

/// Waits for ever while nothing is asked for, and when it was taken.
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
        // Nobody sees it any more, and it goes on.
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
            // Nobody reads any more: it would run for nobody, as after SIGPIPE.
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
    joined.unwrap_or_else(|error| Err(Failure::new(format!("a part of slipway broke: {error}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_presses_what_gets_what() {
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
