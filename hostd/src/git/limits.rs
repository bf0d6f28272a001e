//! Limits of git operations, with their units.

/// Grants of one sandbox at once.
pub const GRANTS_OF_SANDBOX_MAX: usize = 8;
/// Requests of one grant at once, and in all. git sends one at a time, and a few dozen to agree on what is missing.
pub const GRANT_REQUESTS_AT_ONCE: usize = 4;
pub const GRANT_REQUESTS_MAX: u64 = 1_000;
/// How long hostd waits for the records of operations when it ends.
pub const RECORDING_MAX_MS: u64 = 5_000;
/// How long one operation may take at most.
pub const OPERATION_MAX_MS: u64 = 3_600_000;
/// Bytes that one operation may send and receive together.
pub const TRANSFER_MAX_BYTES: u64 = 8 << 30;
/// How long a transfer may stand still. A server works on a large push before it answers.
pub const IDLE_MAX_MS: u64 = 300_000;
/// The head of a response.
pub const HEAD_MAX_BYTES: usize = 64 << 10;
/// Redirects of the first request within one server.
pub const REDIRECTS_MAX: usize = 3;
/// Longest message of a failure.
pub const MESSAGE_MAX_CHARS: usize = 1_024;
/// How long a request without a valid grant waits for its refusal, which slows guessing down.
pub const REFUSAL_DELAY_MS: u64 = 50;
/// How long the token hook may run, how many run at once, and what is read of the output of one.
pub const HOOK_MAX_MS: u64 = 20_000;
pub const HOOKS_AT_ONCE: usize = 16;
pub const HOOK_OUTPUT_MAX_BYTES: u64 = 8 << 10;
/// Bytes of a grant's token.
pub const TOKEN_BYTES: usize = 32;
/// The request that begins a connection of the plain git protocol; git sends a hundred bytes.
pub const PLAIN_REQUEST_MAX_BYTES: usize = 1_024;
/// How long, and for how many bytes, a refused connection is read on, so that git gets to read why.
pub const REFUSED_LINGER_MS: u64 = 2_000;
pub const REFUSED_LINGER_MAX_BYTES: u64 = 16 << 20;
/// How long an SSH server may take for its host key, authentication and the start of git.
pub const SSH_SETUP_MAX_MS: u64 = 30_000;
/// What an SSH server may send before hostd reads it, and messages of it that wait in memory.
pub const SSH_WINDOW_BYTES: u32 = 1 << 20;
pub const SSH_MESSAGES_WAITING_MAX: usize = 16;
/// Bytes of one read for an SSH server.
pub const SSH_READ_BYTES: usize = 32 << 10;
/// The end of the error output of an SSH server, which is kept for the message.
pub const SSH_STDERR_MAX_BYTES: usize = 4 << 10;
/// The file of known hosts.
pub const KNOWN_HOSTS_MAX_BYTES: u64 = 1 << 20;
