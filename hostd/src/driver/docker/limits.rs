//! Every limit of this driver, with its unit in its name.

/// Between two tries to reach an engine that is away, at first and at most.
pub const RECONNECT_FIRST_MS: u64 = 200;
pub const RECONNECT_MAX_MS: u64 = 5_000;
/// How often all containers are listed although the engine tells what happens.
pub const RELIST_EVERY_MS: u64 = 60_000;
/// Containers that are asked about at once, of those that something happened to.
pub const INSPECTS_MAX: usize = 8;
/// Events that come together are answered by one look.
pub const EVENT_DEBOUNCE_MS: u64 = 20;
/// Between two tries of an engine that answers, but did not run the probe as it should: at first, as it may
/// have stumbled, and at most.
pub const PROBE_RETRY_FIRST_MS: u64 = 1_000;
pub const PROBE_RETRY_MAX_MS: u64 = 60_000;
/// How long a request waits for an engine that is not ready, as it may be in a moment.
pub const ENGINE_READY_WAIT_MAX_MS: u64 = 10_000;
/// An engine that tells nothing for so long is asked whether it is still there.
pub const PING_EVERY_MS: u64 = 10_000;
/// How long a container that does not let itself be removed is tried.
pub const REMOVE_MAX_MS: u64 = 15_000;
pub const REMOVE_POLL_MAX_MS: u64 = 500;
/// What a container printed is for people: not waited for any longer.
pub const LAST_LINES_MAX_MS: u64 = 2_000;
/// Containers that a sandbox had before, and that an engine may come back with.
pub const EARLIER_NONCES_MAX: usize = 8;
/// How long opening waits for the first word about the engine.
pub const OPEN_WAIT_MAX_MS: u64 = 10_000;
/// How long an end waits for a launch of the same sandbox that is under way.
pub const LAUNCH_LOCK_WAIT_MAX_MS: u64 = 5_000;
/// How long the engine may take to notice what the kernel already shows.
pub const ENGINE_LAG_MAX_MS: u64 = 3_000;
/// From the kill of a container that is being removed until it is seen to be, and how often it is looked at.
pub const REMOVAL_MAX_MS: u64 = 600;
pub const REMOVAL_POLL_MS: u64 = 50;
/// How long it may take to notice the end of a container that is to be started again.
pub const START_LAG_MAX_MS: u64 = 15_000;
/// Between two looks at what the engine is about to notice.
pub const ENGINE_POLL_MS: u64 = 10;
/// How long the runtime may take to become PID 1 after it was told to.
pub const EXEC_MAX_MS: u64 = 5_000;
/// What an image may say of itself. Engines repeat labels in every event.
pub const IMAGE_LABELS_MAX_BYTES: usize = 64 << 10;
pub const IMAGE_VOLUMES_MAX: usize = 64;
pub const IMAGE_VARIABLES_MAX: usize = 64;
pub const VOLUME_PATH_MAX_BYTES: usize = 1024;
/// Images that are fetched at once, in all and for one tenant, and how long one waits for its turn.
pub const PULLS_MAX: usize = 4;
pub const PULLS_TENANT_MAX: usize = 3;
pub const PULL_WAIT_MAX_MS: u64 = 10 * 60 * 1000;
/// Steps of a launch: each brings it nearer, unless somebody else works against it.
pub const LAUNCH_STEPS_MAX: usize = 16;
/// How long a thaw waits for the engine before it is done without it.
pub const THAW_ENGINE_MAX_MS: u64 = 2_000;
/// A kill of PID 1 this long after the last word of the engine about memory has another reason.
pub const OOM_EVENT_AGE_MAX_MS: u64 = 10_000;
/// What is kept about a container.
pub const RUN_RECORD_MAX_BYTES: u64 = 16 << 10;
/// Containers that were being made while their sandbox was removed, and are remembered for that.
pub const ERASED_MAX: usize = 1024;
pub const ERASED_MAX_BYTES: u64 = 64 << 10;
/// Of the instance, in names.
pub const INSTANCE_SHORT_BYTES: usize = 12;
/// What the engine keeps of what PID 1 prints.
pub const LOG_MAX_SIZE: &str = "1m";
/// What PID 1 gets when somebody else stops its container: it needs 8 s at most.
pub const STOP_TIMEOUT_S: u64 = 10;
