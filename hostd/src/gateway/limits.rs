//! Every limit of the gateway, with its unit, and how patient it is.

use crate::{
    core::{Backoff, Rate},
    limits::MODEL_IDLE_DEFAULT_S,
};
use std::time::Duration;

/// Calls of one sandbox at once.
pub const CALLS_MAX: usize = 64;
/// Body of a request, those of one sandbox that are held at once, and those of all.
pub const BODY_MAX_BYTES: usize = 64 << 20;
pub const BODIES_MAX_BYTES: usize = 128 << 20;
pub const BODIES_ALL_MAX_BYTES: usize = 1 << 30;
/// How long a body may take to come.
pub const BODY_MAX_MS: u64 = 30_000;
/// What a key may be long that somebody shows.
pub const KEY_MAX_BYTES: usize = 512;
/// The name of a model in a request.
pub const MODEL_MAX_BYTES: usize = 256;
/// Head of an answer.
pub const HEAD_MAX_BYTES: usize = 64 << 10;
/// An answer that tells of an error is read whole: so much of it, and so long.
pub const ERROR_MAX_BYTES: usize = 256 << 10;
pub const ERROR_MAX_MS: u64 = 10_000;
/// The list of a provider's models: so much of it, so long, and so many of them.
pub const LIST_MAX_BYTES: usize = 1 << 20;
pub const LIST_MAX_MS: u64 = 10_000;
pub const OFFERED_MAX: usize = 5_000;
/// What is told of a provider's words.
pub const WORDS_MAX_CHARS: usize = 600;
/// An event of a stream that is read for what it says, and an answer in one piece. Longer ones are passed on
/// all the same.
pub const EVENT_MAX_BYTES: usize = 8 << 20;
pub const WHOLE_MAX_BYTES: usize = 8 << 20;
/// A part of an answer that is taken apart.
pub const PART_MAX_BYTES: usize = 64 << 10;
/// What a provider may tell that one call used, of each kind of token.
pub const TOLD_MAX_TOKENS: u64 = 1_000_000_000;
/// Bodies above this are read on a thread of their own: others are served meanwhile.
pub const READ_AT_ONCE_MAX_BYTES: usize = 1 << 20;
/// So many of them at a time: to read one may take as much again as it is long.
pub const READS_MAX: usize = 4;
/// What one sandbox may have hostd answer by itself: refusals, lists of models. Calls that a provider answers take
/// nothing of it.
pub const OWN_ANSWERS: Rate = Rate { burst: 200, per_second: 100 };
/// The budget is asked again after so many tokens.
pub const TOLD_EVERY_TOKENS: u64 = 64;
/// Whoever is refused waits so long for the answer: to be refused costs hostd, not the sandbox.
pub const REFUSED_AFTER_MS: u64 = 20;
/// Connections kept to one provider, to all, and how long.
pub const LINES_MAX: usize = 32;
pub const LINES_ALL_MAX: usize = 256;
pub const LINE_IDLE_MAX_MS: u64 = 45_000;
/// Sandboxes whose calls are remembered without one.
pub const SANDBOXES_MAX: usize = 4_096;

/// How long a provider may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// To the first byte of its answer.
    pub first_byte: Duration,
    /// Without a byte in the middle of it.
    pub idle: Duration,
    pub backoff: Backoff,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(600),
            idle: Duration::from_secs(MODEL_IDLE_DEFAULT_S),
            backoff: Backoff::default(),
        }
    }
}
