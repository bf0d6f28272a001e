//! Repeats the last progress report during silent work: launches treat silence as an engine that does not
//! answer.

use crate::ProgressSink;
use std::{future::Future, time::Duration};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Runs `work` and repeats its last progress report every second until it is done. The work must bound
/// itself.
pub async fn repeat_progress<T, F: Future<Output = T>>(
    progress: &ProgressSink,
    first: &str,
    work: impl FnOnce(ProgressSink) -> F,
) -> T {
    let (report, mut latest) = watch::channel(first.to_owned());
    let mut work = std::pin::pin!(work(ProgressSink::new(move |text| {
        report.send_replace(text.to_owned());
    })));
    let mut again = interval(REPORT_EVERY);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // `work` continues in the next round; cancelling the other arms loses nothing.
        tokio::select! {
            biased;
            done = &mut work => return done,
            Ok(()) = latest.changed() => again.reset(),
            _ = again.tick() => {}
        }
        let text = latest.borrow_and_update().clone();
        progress.report(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn the_last_progress_is_repeated_every_second_until_done() {
        let reported: Arc<Mutex<Vec<String>>> = Arc::default();
        let listener = reported.clone();
        let progress =
            ProgressSink::new(move |text| listener.lock().expect("one writer").push(text.to_owned()));
        let done = repeat_progress(&progress, "begun", async |progress: ProgressSink| {
            sleep(Duration::from_millis(2_500)).await;
            progress.report("half");
            sleep(Duration::from_millis(2_500)).await;
            7
        });
        assert_eq!(done.await, 7);
        let reported = reported.lock().expect("reported").clone();
        assert_eq!(reported, ["begun", "begun", "begun", "half", "half", "half"]);
        let quick = repeat_progress(&progress, "quick", async |_: ProgressSink| 1).await;
        assert_eq!(quick, 1);
    }
}
