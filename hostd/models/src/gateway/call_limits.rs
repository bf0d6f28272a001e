//! Limits of concurrent calls, of request bodies in memory and of local responses: for each sandbox, and for
//! bodies also for all sandboxes together.

use super::{
    limits::{
        BODIES_ALL_MAX_BYTES, BODIES_MAX_BYTES, CALLS_MAX, LOCAL_RESPONSES, PARSE_THREADS_MAX, SANDBOXES_MAX,
    },
    refusal::GatewayRefusal,
};
use hostd_core::RateLimiter;
use protocol::api::SandboxId;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits and what is in use of them. Cheap to clone.
#[derive(Clone, Default)]
pub struct CallLimits {
    host: Arc<HostUsage>,
}

struct HostUsage {
    by_sandbox: Mutex<HashMap<SandboxId, Arc<SandboxUsage>>>,
    bytes: AtomicUsize,
    /// Permits to parse a long body.
    parse_threads: Arc<Semaphore>,
}

impl Default for HostUsage {
    fn default() -> Self {
        let parse_threads = Arc::new(Semaphore::new(PARSE_THREADS_MAX));
        Self { by_sandbox: Mutex::default(), bytes: AtomicUsize::new(0), parse_threads }
    }
}

struct SandboxUsage {
    calls: AtomicUsize,
    bytes: AtomicUsize,
    since: Instant,
    local_responses: Mutex<RateLimiter>,
}

impl Default for SandboxUsage {
    fn default() -> Self {
        let local_responses = Mutex::new(RateLimiter::new(LOCAL_RESPONSES, 0));
        Self {
            calls: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            since: Instant::now(),
            local_responses,
        }
    }
}

impl SandboxUsage {
    fn local_responses(&self) -> MutexGuard<'_, RateLimiter> {
        self.local_responses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts as one call until it is dropped.
pub struct CallPermit {
    host: Arc<HostUsage>,
    sandbox: Arc<SandboxUsage>,
}

/// Counts bytes of a body as in memory until it is dropped.
pub struct BodyPermit {
    host: Arc<HostUsage>,
    sandbox: Arc<SandboxUsage>,
    bytes: usize,
}

impl CallLimits {
    fn usage_of(&self, sandbox: &SandboxId) -> Arc<SandboxUsage> {
        let mut all = self.host.by_sandbox.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= SANDBOXES_MAX {
            all.retain(|_, usage| Arc::strong_count(usage) > 1);
        }
        all.entry(*sandbox).or_default().clone()
    }

    /// Takes one of the responses that hostd itself gives this sandbox; false where it had too many.
    pub fn take_local_response(&self, sandbox: &SandboxId) -> bool {
        let usage = self.usage_of(sandbox);
        let now_ms = u64::try_from(usage.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        usage.local_responses().try_acquire(now_ms)
    }

    /// Gives the response back: the provider answered, not hostd.
    pub fn refund_local_response(&self, sandbox: &SandboxId) {
        self.usage_of(sandbox).local_responses().refund();
    }

    pub fn acquire(&self, sandbox: &SandboxId) -> Result<CallPermit, GatewayRefusal> {
        let usage = self.usage_of(sandbox);
        if !add(&usage.calls, 1, CALLS_MAX) {
            return Err(GatewayRefusal::TooMany);
        }
        Ok(CallPermit { host: self.host.clone(), sandbox: usage })
    }
}

impl CallPermit {
    /// A permit to parse a long body.
    pub async fn parse_thread_permit(&self) -> Result<OwnedSemaphorePermit, GatewayRefusal> {
        // The semaphore is never closed.
        self.host.parse_threads.clone().acquire_owned().await.map_err(|_| GatewayRefusal::TooMany)
    }

    pub fn body_permit(&self) -> BodyPermit {
        BodyPermit { host: self.host.clone(), sandbox: self.sandbox.clone(), bytes: 0 }
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        self.sandbox.calls.fetch_sub(1, Ordering::SeqCst);
    }
}

impl BodyPermit {
    /// Counts so many more bytes.
    pub fn grow(&mut self, bytes: usize) -> Result<(), GatewayRefusal> {
        if !add(&self.sandbox.bytes, bytes, BODIES_MAX_BYTES) {
            return Err(GatewayRefusal::TooMany);
        }
        if !add(&self.host.bytes, bytes, BODIES_ALL_MAX_BYTES) {
            self.sandbox.bytes.fetch_sub(bytes, Ordering::SeqCst);
            return Err(GatewayRefusal::TooMany);
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        self.sandbox.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        self.host.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

fn add(to: &AtomicUsize, more: usize, max: usize) -> bool {
    let sum = |now: usize| now.checked_add(more).filter(|sum| *sum <= max);
    to.fetch_update(Ordering::SeqCst, Ordering::SeqCst, sum).is_ok()
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
        let all = limits.host.by_sandbox.lock().expect("mine");
        assert!(all.len() < 100 && all.contains_key(&sandbox(0)), "{}", all.len());
    }
}
