//! Every limit of this driver, with its unit in its name.

/// Backoff while the engine is unreachable: first and longest.
pub const RECONNECT_FIRST_MS: u64 = 200;
pub const RECONNECT_MAX_MS: u64 = 5_000;
/// How often all containers are listed in spite of the event stream.
pub const RELIST_EVERY_MS: u64 = 60_000;
/// Concurrent inspects after events.
pub const INSPECTS_MAX: usize = 8;
/// Events of one container within this time cause one inspect.
pub const EVENT_DEBOUNCE_MS: u64 = 20;
/// Backoff between probes of an engine that answers but failed the probe: the first is short, as the failure
/// may be transient.
pub const PROBE_RETRY_FIRST_MS: u64 = 1_000;
pub const PROBE_RETRY_MAX_MS: u64 = 60_000;
/// How long a request waits for an engine that is not ready.
pub const ENGINE_READY_WAIT_MAX_MS: u64 = 10_000;
/// Silence of the event stream before the engine is pinged.
pub const PING_EVERY_MS: u64 = 10_000;
/// How long the removal of a container is retried.
pub const REMOVE_MAX_MS: u64 = 15_000;
pub const REMOVE_POLL_MAX_MS: u64 = 500;
/// Reading the output of a container for display is given up after this time.
pub const LAST_LINES_MAX_MS: u64 = 2_000;
/// Earlier containers of one sandbox that are recognized, should the engine bring one back.
pub const EARLIER_NONCES_MAX: usize = 8;
/// How long opening the driver waits for the first probe.
pub const OPEN_WAIT_MAX_MS: u64 = 10_000;
/// How long terminate and destroy wait for a launch of the same sandbox.
pub const LAUNCH_LOCK_WAIT_MAX_MS: u64 = 5_000;
/// How long the engine may lag behind the kernel.
pub const ENGINE_LAG_MAX_MS: u64 = 3_000;
/// From the kill of a container that is being removed until the removal shows, and the poll interval.
pub const REMOVAL_MAX_MS: u64 = 600;
pub const REMOVAL_POLL_MS: u64 = 50;
/// How long the engine may take to notice the exit of a container that is to be started again.
pub const START_LAG_MAX_MS: u64 = 15_000;
/// Poll interval while the engine lags behind.
pub const ENGINE_POLL_MS: u64 = 10;
/// How long the runtime may take to `exec` PID 1 after the start.
pub const EXEC_MAX_MS: u64 = 5_000;
/// Limits on the configuration of an image. Engines repeat labels in every event.
pub const IMAGE_LABELS_MAX_BYTES: usize = 64 << 10;
pub const IMAGE_VOLUMES_MAX: usize = 64;
pub const IMAGE_VARIABLES_MAX: usize = 64;
/// Steps of a launch. Each makes progress unless something else changes the container.
pub const LAUNCH_STEPS_MAX: usize = 16;
/// How long a thaw waits for the engine before it goes by the control group.
pub const THAW_ENGINE_MAX_MS: u64 = 2_000;
/// An OOM event older than this does not explain a kill of PID 1.
pub const OOM_EVENT_AGE_MAX_MS: u64 = 10_000;
/// Size of `run.json`.
pub const RUN_RECORD_MAX_BYTES: u64 = 16 << 10;
/// Launches of destroyed sandboxes that are remembered, and the size of their file.
pub const DESTROYED_MAX: usize = 1024;
pub const DESTROYED_MAX_BYTES: u64 = 64 << 10;
/// Characters of the instance in names of containers and networks.
pub const INSTANCE_SHORT_BYTES: usize = 12;
/// Log that the engine keeps of the output of PID 1.
pub const LOG_MAX_SIZE: &str = "1m";
/// Time for PID 1 to stop when an operator stops its container: it needs 8 s at most.
pub const STOP_TIMEOUT_S: u64 = 10;
