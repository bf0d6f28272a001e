//! Limits of the edge, with their units.

use std::time::Duration;

/// Size of the head of a request.
pub const HEAD_MAX_BYTES: usize = 64 << 10;
/// How long a browser may take to send a head, also the next one on a connection it keeps.
pub const HEAD_MAX: Duration = Duration::from_secs(30);
/// How long an app may take to begin its response, once it has the request.
pub const RESPONSE_MAX_MS: u64 = 300_000;
pub const RESPONSE_MAX: Duration = Duration::from_millis(RESPONSE_MAX_MS);
/// How long a request may be held for a sandbox that is starting.
pub const HOLD_MAX: Duration = Duration::from_secs(30);
/// How often one request wakes a sandbox that is put to sleep again meanwhile.
pub const WAKE_TRIES: u32 = 3;
/// How long a navigation is held before the browser gets a page that waits.
pub const NAVIGATION_HOLD_MAX: Duration = Duration::from_secs(1);
/// How long a port may take to be listened on once its sandbox is up.
pub const LISTEN_MAX: Duration = Duration::from_secs(120);
/// Wakes of one sandbox at once: one for each port that requests wait for.
pub const WAKES_MAX: usize = 8;
/// How long a wake without watchers goes on: clients that are told to retry come back.
pub const UNWATCHED_MAX: Duration = Duration::from_secs(5);
/// Pause between two dials of a port: first, longest.
pub const TRY_MIN: Duration = Duration::from_millis(1);
pub const TRY_MAX: Duration = Duration::from_millis(50);
/// When runtimed is first asked which services are starting, and then how often.
pub const STATUS_FIRST: Duration = Duration::from_millis(20);
pub const STATUS_EVERY: Duration = Duration::from_millis(250);
/// Interval at which the kernel is asked whether the app's end has acknowledged a request.
pub const DELIVERY_PROBE_EVERY: Duration = Duration::from_millis(300);
/// How long a request keeps its permit at a port; a slow response must not hold up the others.
pub const PERMIT_MAX: Duration = Duration::from_secs(2);
/// How long a pooled connection may have been idle for a request that must not be sent twice.
pub const IDLE_UNREPEATABLE_MAX: Duration = Duration::from_secs(1);
/// Descriptors that are not for previews, and descriptors of one visit.
pub const DESCRIPTORS_KEPT: u64 = 4096;
pub const DESCRIPTORS_PER_VISIT: u64 = 2;
/// The part of all connections that one sandbox, or one address that is not loopback, may have.
pub const PEER_SHARE: usize = 2;
/// Streams of one HTTP/2 connection.
pub const STREAMS_MAX: u32 = 32;
/// How long requests in flight may take when hostd shuts down.
pub const DRAIN_MAX: Duration = Duration::from_secs(3);
/// How long a browser may read nothing of what is sent to it.
pub const PEER_SILENT_MAX_MS: u32 = 5 * 60_000;
/// Interval of keep-alive probes on a silent connection.
pub const KEEPALIVE_S: u32 = 60;
/// How long one half of an upgraded connection goes on when the other has ended.
pub const HALF_CLOSED_MAX: Duration = Duration::from_secs(300);
/// Pages that wait for a port at once, and the interval at which the port is checked for them.
pub const WAITING_PAGES_MAX: usize = 512;
pub const WAITING_PAGE_LOOK: Duration = Duration::from_millis(500);
/// How long a page waits at most, and the interval of its heartbeats.
pub const WAITING_PAGE_MAX: Duration = Duration::from_secs(30 * 60);
pub const HEARTBEAT: Duration = Duration::from_secs(15);
/// Interval at which idle connections to apps are dropped.
pub const PRUNE_EVERY: Duration = Duration::from_secs(15);
