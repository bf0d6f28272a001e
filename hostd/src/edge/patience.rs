//! How long an app is waited for, and what is done meanwhile. Costs one timer while an answer is quick.
//!
//! ```text
//!  sent ──▶ does its end have the request? ──▶ others have the turn ──▶ neither an answer nor any use for
//!                 │ no: sent once more                                  the body for long: given up
//! ```

use super::limits;
use crate::{
    reconcile::{Fleet, PreviewTarget},
    upstream::{Hearing, Meter, Turn},
};
use protocol::api::SandboxStatus;
use std::{
    convert::Infallible,
    future::{pending, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll},
};
use tokio::time::{Instant, Sleep};

/// Why it is not waited for any longer.
#[derive(Debug)]
pub enum Cut {
    Silent,
    /// The app's end does not have the request, and it can be sent again.
    Unheard,
}

pub struct Patience<'a> {
    /// What must not stay frozen meanwhile.
    keeps: Option<(&'a PreviewTarget, &'a Fleet)>,
    turn: Option<Turn>,
    alarm: Pin<&'a mut Sleep>,
    begun: Instant,
    /// It took long already.
    late: bool,
    heard: bool,
    may_repeat: bool,
    /// Pieces of the body that went, and when the last of them did.
    frames: usize,
    moved: Instant,
    awake: Option<Pin<Box<dyn Future<Output = Infallible> + Send + 'a>>>,
}

impl<'a> Patience<'a> {
    /// The alarm rings after `UNHEARD_MAX`.
    pub fn new(keeps: Option<(&'a PreviewTarget, &'a Fleet)>, turn: Turn, alarm: Pin<&'a mut Sleep>) -> Self {
        let begun = alarm.deadline() - limits::UNHEARD_MAX;
        let (turn, awake, frames, moved) = (Some(turn), None, 0, begun);
        let (late, heard, may_repeat) = (false, false, false);
        Self { keeps, turn, alarm, begun, late, heard, may_repeat, frames, moved, awake }
    }

    /// Something is sent, or sent again.
    pub fn begin(&mut self, may_repeat: bool) {
        (self.heard, self.may_repeat) = (false, may_repeat);
        if self.late {
            self.alarm.as_mut().reset(Instant::now() + limits::UNHEARD_MAX);
        }
    }

    /// The app has the request.
    pub fn heard(&mut self) {
        self.heard = true;
        if let Some(turn) = &mut self.turn {
            turn.heard();
        }
    }

    /// What comes of it; `meter` is that of the line on which it is done.
    pub async fn during<T>(
        &mut self,
        meter: Option<&Meter>,
        work: impl Future<Output = T>,
    ) -> Result<T, Cut> {
        let mut work = pin!(work);
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(done) = work.as_mut().poll(cx) {
                    return Poll::Ready(Ok(done));
                }
                if self.late
                    && let Err(cut) = self.attend(meter, cx)
                {
                    return Poll::Ready(Err(cut));
                }
                if self.alarm.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                if let Err(cut) = self.ring(meter) {
                    return Poll::Ready(Err(cut));
                }
            }
        })
        .await
    }

    fn attend(&mut self, meter: Option<&Meter>, cx: &mut Context<'_>) -> Result<(), Cut> {
        if let Some(awake) = &mut self.awake {
            let Poll::Pending = awake.as_mut().poll(cx);
        }
        let Some(meter) = meter else { return Ok(()) };
        if meter.frames() != self.frames {
            (self.frames, self.moved) = (meter.frames(), Instant::now());
        }
        match meter.hearing() {
            Hearing::Heard if !self.heard => self.heard(),
            Hearing::Deaf => {
                self.unheard();
                meter.forget();
                if self.may_repeat {
                    return Err(Cut::Unheard);
                }
            }
            Hearing::Unknown | Hearing::Asked | Hearing::Heard => {}
        }
        Ok(())
    }

    fn ring(&mut self, meter: Option<&Meter>) -> Result<(), Cut> {
        let now = Instant::now();
        self.late = true;
        if let Some((site, fleet)) = self.keeps.take() {
            self.awake = Some(Box::pin(keep_awake(site, fleet)));
        }
        match meter {
            Some(meter) if !self.heard => meter.ask(),
            Some(_) => {}
            // A connection is waited for: its queue is full.
            None => self.unheard(),
        }
        let turn_ends = self.begun + limits::TURN_MAX;
        if now >= turn_ends {
            self.turn = None;
        }
        let silent_at = self.moved + limits::ANSWER_MAX;
        let next = match &self.turn {
            _ if now >= silent_at => return Err(Cut::Silent),
            _ if !self.heard => now + limits::UNHEARD_MAX,
            Some(_) => turn_ends,
            None => silent_at,
        };
        self.alarm.as_mut().reset(next.min(silent_at));
        Ok(())
    }

    fn unheard(&self) {
        if let Some(turn) = &self.turn {
            turn.unheard();
        }
    }
}

/// Somebody may pause it while a request is under way: that thaws it again, as any new one would.
async fn keep_awake(site: &PreviewTarget, fleet: &Fleet) -> Infallible {
    loop {
        let record = site.record();
        if record.state.status == SandboxStatus::Paused && record.state.operation.is_none() {
            // What is stopped meanwhile stays so, and the line to it breaks.
            let _ = fleet.thaw(&site.id).await;
        }
        site.changed(&record).await;
        if site.record().generation == record.generation {
            // Its owner ended: nothing changes any more.
            return pending().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Lines;
    use std::time::Duration;
    use tokio::time::sleep;

    const PORT: u16 = 8000;

    /// How long an app is waited for that never answers, while this is done.
    async fn waits(meter: &Meter, may_repeat: bool, meanwhile: impl Future<Output = ()>) -> (Cut, Duration) {
        let (begun, turn) = (Instant::now(), Lines::default().turn(PORT).await);
        let alarm = pin!(sleep(limits::UNHEARD_MAX));
        let mut patience = Patience::new(None, turn, alarm);
        patience.begin(may_repeat);
        let never = async {
            meanwhile.await;
            pending::<()>().await;
        };
        let cut = patience.during(Some(meter), never).await.expect_err("it never answers");
        (cut, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn an_app_may_take_its_time_from_the_last_piece_of_a_body_on() {
        let meter = Meter::default();
        let (cut, after) = waits(&meter, false, async {}).await;
        assert!(matches!(cut, Cut::Silent), "{cut:?}");
        assert!(after.abs_diff(limits::ANSWER_MAX) < Duration::from_secs(1), "{after:?}");
        let body = async {
            for _ in 0..10 {
                sleep(limits::ANSWER_MAX / 2).await;
                meter.sent_frame();
            }
        };
        let (_, after) = waits(&meter, false, body).await;
        assert!(after.abs_diff(limits::ANSWER_MAX * 6) < Duration::from_secs(1), "{after:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_reached_the_app_is_sent_again_if_it_can_be() {
        for may_repeat in [true, false] {
            let meter = Meter::default();
            let deaf = async {
                while meter.hearing() != Hearing::Asked {
                    sleep(Duration::from_millis(10)).await;
                }
                meter.tell(Hearing::Deaf);
            };
            let (cut, after) = waits(&meter, may_repeat, deaf).await;
            assert_eq!(matches!(cut, Cut::Unheard), may_repeat, "{cut:?}");
            assert_eq!(after < limits::TURN_MAX, may_repeat, "{after:?}");
        }
    }
}
