//! How long an app may take to respond, and what is done meanwhile. Costs one timer while a response is quick.
//!
//! ```text
//!  sent ──▶ did the app's kernel take it? ──▶ the permit goes to others ──▶ neither a response nor progress of
//!                 │ no: sent once more                                      the body for long: given up
//! ```

use super::limits;
use crate::{
    preview_target::PreviewTarget,
    upstream::{Delivery, DeliveryMeter, WindowPermit},
    waker::Waker,
};
use protocol::api::SandboxStatus;
use std::{
    convert::Infallible,
    future::{pending, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll},
};
use tokio::time::{Instant, Sleep};

/// Why a response is not waited for any longer.
#[derive(Debug)]
pub enum GaveUp {
    NoResponse,
    /// The app's kernel never took the request, and it can be sent again.
    Undelivered,
}

/// The state of the request that was sent last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Sent { may_resend: bool },
    Delivered,
}

pub struct ResponseTimeout<'a> {
    /// The sandbox that must not stay frozen meanwhile.
    keep_awake: Option<(&'a PreviewTarget, &'a dyn Waker)>,
    permit: Option<WindowPermit>,
    timer: Pin<&'a mut Sleep>,
    started: Instant,
    /// The timer fired at least once.
    is_late: bool,
    request: Request,
    /// Frames of the body that were sent, and when the last of them was.
    body_frames: usize,
    body_moved: Instant,
    awake: Option<Pin<Box<dyn Future<Output = Infallible> + Send + 'a>>>,
}

impl<'a> ResponseTimeout<'a> {
    /// The timer fires after `DELIVERY_PROBE_EVERY`.
    pub fn new(
        keep_awake: Option<(&'a PreviewTarget, &'a dyn Waker)>,
        permit: WindowPermit,
        timer: Pin<&'a mut Sleep>,
    ) -> Self {
        let started = timer.deadline() - limits::DELIVERY_PROBE_EVERY;
        Self {
            keep_awake,
            permit: Some(permit),
            timer,
            started,
            is_late: false,
            request: Request::Sent { may_resend: false },
            body_frames: 0,
            body_moved: started,
            awake: None,
        }
    }

    /// Called before a request is sent, or sent again.
    pub fn on_send(&mut self, may_resend: bool) {
        self.request = Request::Sent { may_resend };
        if self.is_late {
            self.timer.as_mut().reset(Instant::now() + limits::DELIVERY_PROBE_EVERY);
        }
    }

    /// Called when the app has the request.
    pub fn on_delivered(&mut self) {
        self.request = Request::Delivered;
        if let Some(permit) = &mut self.permit {
            permit.on_delivered();
        }
    }

    /// Runs `work` to its end or to the timeout; `meter` is that of the connection that `work` uses.
    pub async fn run<T>(
        &mut self,
        meter: Option<&DeliveryMeter>,
        work: impl Future<Output = T>,
    ) -> Result<T, GaveUp> {
        let mut work = pin!(work);
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(done) = work.as_mut().poll(cx) {
                    return Poll::Ready(Ok(done));
                }
                if self.is_late
                    && let Err(gave_up) = self.check_delivery(meter, cx)
                {
                    return Poll::Ready(Err(gave_up));
                }
                if self.timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                if let Err(gave_up) = self.on_timer(meter) {
                    return Poll::Ready(Err(gave_up));
                }
            }
        })
        .await
    }

    fn check_delivery(&mut self, meter: Option<&DeliveryMeter>, cx: &mut Context<'_>) -> Result<(), GaveUp> {
        if let Some(awake) = &mut self.awake {
            let Poll::Pending = awake.as_mut().poll(cx);
        }
        let Some(meter) = meter else { return Ok(()) };
        if meter.body_frames() != self.body_frames {
            (self.body_frames, self.body_moved) = (meter.body_frames(), Instant::now());
        }
        match (meter.delivery(), self.request) {
            (Delivery::Delivered, Request::Sent { .. }) => self.on_delivered(),
            (Delivery::Lost, request) => {
                self.on_undelivered();
                meter.reset();
                if request == (Request::Sent { may_resend: true }) {
                    return Err(GaveUp::Undelivered);
                }
            }
            (Delivery::Delivered, Request::Delivered) | (Delivery::Unknown | Delivery::Probing, _) => {}
        }
        Ok(())
    }

    fn on_timer(&mut self, meter: Option<&DeliveryMeter>) -> Result<(), GaveUp> {
        let now = Instant::now();
        self.is_late = true;
        if let Some((target, waker)) = self.keep_awake.take() {
            self.awake = Some(Box::pin(keep_awake(target, waker)));
        }
        let delivered = self.request == Request::Delivered;
        match meter {
            Some(meter) if !delivered => meter.probe(),
            Some(_) => {}
            // A connection is waited for: the queue of the port is full.
            None => self.on_undelivered(),
        }
        let permit_ends = self.started + limits::PERMIT_MAX;
        if now >= permit_ends {
            self.permit = None;
        }
        let gives_up_at = self.body_moved + limits::RESPONSE_MAX;
        let next = match &self.permit {
            _ if now >= gives_up_at => return Err(GaveUp::NoResponse),
            _ if !delivered => now + limits::DELIVERY_PROBE_EVERY,
            Some(_) => permit_ends,
            None => gives_up_at,
        };
        self.timer.as_mut().reset(next.min(gives_up_at));
        Ok(())
    }

    fn on_undelivered(&self) {
        if let Some(permit) = &self.permit {
            permit.on_undelivered();
        }
    }
}

/// Thaws a sandbox that is paused while a request is under way, as any new request would.
async fn keep_awake(target: &PreviewTarget, waker: &dyn Waker) -> Infallible {
    loop {
        let record = target.record();
        if record.state.status == SandboxStatus::Paused && record.state.operation.is_none() {
            // A sandbox that is stopped meanwhile stays so, and the connection to it breaks.
            let _ = waker.thaw(&target.id).await;
        }
        target.changed(&record).await;
        if target.record().generation == record.generation {
            // The actor of the sandbox ended: nothing changes any more.
            return pending().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::UpstreamPool;
    use std::time::Duration;
    use tokio::time::sleep;

    const PORT: u16 = 8000;

    /// How long an app that never responds is waited for while `meanwhile` runs.
    async fn waits(
        meter: &DeliveryMeter,
        may_resend: bool,
        meanwhile: impl Future<Output = ()>,
    ) -> (GaveUp, Duration) {
        let (started, permit) = (Instant::now(), UpstreamPool::default().permit(PORT).await);
        let timer = pin!(sleep(limits::DELIVERY_PROBE_EVERY));
        let mut timeout = ResponseTimeout::new(None, permit, timer);
        timeout.on_send(may_resend);
        let never = async {
            meanwhile.await;
            pending::<()>().await;
        };
        let gave_up = timeout.run(Some(meter), never).await.expect_err("the app never responds");
        (gave_up, started.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn an_app_may_take_its_time_from_the_last_frame_of_a_body_on() {
        let meter = DeliveryMeter::default();
        let (gave_up, after) = waits(&meter, false, async {}).await;
        assert!(matches!(gave_up, GaveUp::NoResponse), "{gave_up:?}");
        assert!(after.abs_diff(limits::RESPONSE_MAX) < Duration::from_secs(1), "{after:?}");
        let body = async {
            for _ in 0..10 {
                sleep(limits::RESPONSE_MAX / 2).await;
                meter.on_body_frame();
            }
        };
        let (_, after) = waits(&meter, false, body).await;
        assert!(after.abs_diff(limits::RESPONSE_MAX * 6) < Duration::from_secs(1), "{after:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_never_reached_the_app_is_sent_again_if_it_can_be() {
        for may_resend in [true, false] {
            let meter = DeliveryMeter::default();
            let lost = async {
                while meter.delivery() != Delivery::Probing {
                    sleep(Duration::from_millis(10)).await;
                }
                meter.set(Delivery::Lost);
            };
            let (gave_up, after) = waits(&meter, may_resend, lost).await;
            assert_eq!(matches!(gave_up, GaveUp::Undelivered), may_resend, "{gave_up:?}");
            assert_eq!(after < limits::PERMIT_MAX, may_resend, "{after:?}");
        }
    }
}
