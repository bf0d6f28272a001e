//! Limits of concurrent calls, of request bodies in memory and of local responses: for each sandbox, and for
//! bodies also for all sandboxes together.

use super::{
    limits::{
        BODIES_ALL_MAX_BYTES, BODIES_MAX_BYTES, CALLS_MAX, LOCAL_RESPONSES, PARSE_THREADS_MAX, SANDBOXES_MAX,
    },
    refusal::GatewayRefusal,
};
use hostd_core::RateLimiter;
use hostd_net::keyed_limiter::{InUse, KeyedLimiter, KeyedPermit};
use protocol::api::SandboxId;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits and what is in use of them. Cheap to clone.
#[derive(Clone, Default)]
pub struct CallLimits {
    host: Arc<HostUsage>,
}

struct HostUsage {
    calls: KeyedLimiter<SandboxId>,
    /// Bytes of request bodies.
    bodies: KeyedLimiter<SandboxId>,
    /// Permits to parse a long body.
    parse_threads: Arc<Semaphore>,
    rates: Mutex<HashMap<SandboxId, Arc<LocalResponseRate>>>,
}

impl Default for HostUsage {
    fn default() -> Self {
        Self {
            calls: KeyedLimiter::default(),
            bodies: KeyedLimiter::default(),
            parse_threads: Arc::new(Semaphore::new(PARSE_THREADS_MAX)),
            rates: Mutex::default(),
        }
    }
}

/// The rate of hostd's own responses to a sandbox: over time, unlike the counts of what is in use.
struct LocalResponseRate {
    since: Instant,
    limiter: Mutex<RateLimiter>,
}

impl Default for LocalResponseRate {
    fn default() -> Self {
        Self { since: Instant::now(), limiter: Mutex::new(RateLimiter::new(LOCAL_RESPONSES, 0)) }
    }
}

impl LocalResponseRate {
    fn limiter(&self) -> MutexGuard<'_, RateLimiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts as one call until it is dropped.
pub struct CallPermit {
    host: Arc<HostUsage>,
    sandbox: SandboxId,
    _call: KeyedPermit<SandboxId>,
    /// The rate of a sandbox that makes a call is not forgotten.
    _rate: Arc<LocalResponseRate>,
}

/// Counts bytes of a body as in memory until it is dropped.
pub struct BodyPermit(KeyedPermit<SandboxId>);

impl CallLimits {
    fn rate_of(&self, sandbox: &SandboxId) -> Arc<LocalResponseRate> {
        let mut all = self.host.rates.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= SANDBOXES_MAX {
            all.retain(|_, rate| Arc::strong_count(rate) > 1);
        }
        all.entry(*sandbox).or_default().clone()
    }

    /// Takes one of the responses that hostd itself gives this sandbox; false where it had too many.
    pub fn take_local_response(&self, sandbox: &SandboxId) -> bool {
        let rate = self.rate_of(sandbox);
        let now_ms = u64::try_from(rate.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        rate.limiter().try_acquire(now_ms)
    }

    /// Gives the response back: the provider answered, not hostd.
    pub fn refund_local_response(&self, sandbox: &SandboxId) {
        self.rate_of(sandbox).limiter().refund();
    }

    pub fn acquire(&self, sandbox: &SandboxId) -> Result<CallPermit, GatewayRefusal> {
        let fits = |in_use: InUse| in_use.mine < CALLS_MAX;
        let call = self.host.calls.acquire(*sandbox, |in_use| refuse_unless(fits(in_use)))?;
        let rate = self.rate_of(sandbox);
        Ok(CallPermit { host: self.host.clone(), sandbox: *sandbox, _call: call, _rate: rate })
    }
}

impl CallPermit {
    /// A permit to parse a long body.
    pub async fn parse_thread_permit(&self) -> Result<OwnedSemaphorePermit, GatewayRefusal> {
        // The semaphore is never closed.
        self.host.parse_threads.clone().acquire_owned().await.map_err(|_| GatewayRefusal::TooMany)
    }

    pub fn body_permit(&self) -> BodyPermit {
        BodyPermit(self.host.bodies.permit(self.sandbox))
    }
}

impl BodyPermit {
    /// Counts so many more bytes.
    pub fn grow(&mut self, bytes: usize) -> Result<(), GatewayRefusal> {
        let within = |now: usize, max: usize| now.checked_add(bytes).is_some_and(|sum| sum <= max);
        self.0.grow(bytes, |in_use| {
            let fits = within(in_use.mine, BODIES_MAX_BYTES) && within(in_use.total, BODIES_ALL_MAX_BYTES);
            refuse_unless(fits)
        })
    }
}

fn refuse_unless(fits: bool) -> Result<(), GatewayRefusal> {
    if fits { Ok(()) } else { Err(GatewayRefusal::TooMany) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn sandbox(n: u32) -> SandboxId {
        format!("01j00000000000000000{n:06}").parse().expect("an id")
    }

    #[test]
    fn a_sandbox_makes_so_many_calls_at_once_and_takes_none_from_others() {
        let limits = CallLimits::default();
        let mut taken: Vec<CallPermit> =
            (0..CALLS_MAX).map(|_| limits.acquire(&sandbox(1)).expect("free")).collect();
        assert!(matches!(limits.acquire(&sandbox(1)), Err(GatewayRefusal::TooMany)));
        limits.acquire(&sandbox(2)).expect("another's");
        taken.pop();
        limits.acquire(&sandbox(1)).expect("free again");
    }

    #[test]
    fn bodies_are_bounded_for_each_and_for_all_and_given_back() {
        let limits = CallLimits::default();
        let permit = limits.acquire(&sandbox(1)).expect("free");
        let (mut first, mut second) = (permit.body_permit(), permit.body_permit());
        first.grow(BODIES_MAX_BYTES - 10).expect("room");
        assert_eq!(second.grow(11), Err(GatewayRefusal::TooMany));
        second.grow(10).expect("just enough");
        drop(first);
        second.grow(11).expect("given back");
        let others: Vec<(CallPermit, BodyPermit)> = (2..20)
            .map(|n| {
                let permit = limits.acquire(&sandbox(n)).expect("free");
                let mut body = permit.body_permit();
                // More than all sandboxes may have together.
                let _ = body.grow(BODIES_MAX_BYTES);
                (permit, body)
            })
            .collect();
        let late = limits.acquire(&sandbox(99)).expect("free");
        assert_eq!(late.body_permit().grow(BODIES_MAX_BYTES), Err(GatewayRefusal::TooMany));
        drop(others);
        late.body_permit().grow(BODIES_MAX_BYTES).expect("room again");
    }

    #[test]
    fn long_bodies_are_read_a_few_at_a_time() {
        let limits = CallLimits::default();
        let permit = limits.acquire(&sandbox(1)).expect("free");
        let parse = || permit.parse_thread_permit().now_or_never();
        let mut parsing: Vec<_> = std::iter::repeat_with(parse).take(PARSE_THREADS_MAX).collect();
        assert!(parsing.iter().all(Option::is_some) && parse().is_none());
        parsing.pop();
        assert!(parse().is_some());
    }

    #[test]
    fn a_sandbox_is_answered_by_hostd_so_often_and_takes_nothing_from_others() {
        let limits = CallLimits::default();
        let answered = (0..10_000).filter(|_| limits.take_local_response(&sandbox(1))).count();
        assert!((200..5_000).contains(&answered), "{answered}");
        assert!(limits.take_local_response(&sandbox(2)));
        for _ in 0..10_000 {
            assert!(limits.take_local_response(&sandbox(3)), "what a provider answered is given back");
            limits.refund_local_response(&sandbox(3));
        }
    }

    #[test]
    fn sandboxes_without_a_call_are_forgotten() {
        let limits = CallLimits::default();
        let _kept = limits.acquire(&sandbox(0)).expect("free");
        for n in 0..u32::try_from(SANDBOXES_MAX).expect("small") + 10 {
            limits.acquire(&sandbox(n)).expect("free");
        }
        let all = limits.host.rates.lock().expect("mine");
        assert!(all.len() < 100 && all.contains_key(&sandbox(0)), "{}", all.len());
    }
}
