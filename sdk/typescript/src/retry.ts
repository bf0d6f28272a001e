/** Decides whether and when a call is repeated. Pure: time and chance are arguments. */

import { ApiError, SlipwayError, TransportError, type ErrorCode } from "./errors.js";

export interface RetryPolicy {
  /** How often a call is repeated at most. */
  retries: number;
  /** The first pause is at most this long; each further one twice as long. */
  baseMs: number;
  /** No pause of ours is longer. */
  maxMs: number;
  /** A server that wants a longer pause (`Retry-After`) is not waited for. */
  retryAfterMaxMs: number;
}

export const DEFAULT_RETRIES: RetryPolicy = { retries: 6, baseMs: 250, maxMs: 8_000, retryAfterMaxMs: 60_000 };

/** Whether a call may be carried out twice: `safe` calls have the same effect then; `once` must not. */
export type Repeatable = "safe" | "once";

/** Codes with which nothing was done yet, so that also a call that must not happen twice is repeated. */
const NOTHING_DONE: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "too_many",
  "waking",
  "driver_unavailable",
  "capacity",
  "shutting_down",
]);

/**
 * Returns the pause in milliseconds before the call is repeated, or null if it is not. `repeated` is how often it was,
 * and `random` is between 0 and 1.
 */
export function pauseBefore(
  error: SlipwayError,
  call: { repeatable: Repeatable; repeated: number; random: number },
  policy: RetryPolicy,
): number | null {
  if (call.repeated >= policy.retries || !mayRepeat(error, call.repeatable)) return null;
  const afterMs = (error instanceof ApiError ? error.retryAfterMs : null) ?? 0;
  if (afterMs > policy.retryAfterMaxMs) return null;
  return Math.max(backoff(call.repeated, call.random, policy), afterMs);
}

function mayRepeat(error: SlipwayError, repeatable: Repeatable): boolean {
  if (!error.retryable) return false;
  if (repeatable === "safe") return error instanceof ApiError || error instanceof TransportError;
  return error instanceof ApiError ? NOTHING_DONE.has(error.code) : wasRefused(error);
}

/** Half of it is chance, so that clients do not come back together. */
export function backoff(
  repeated: number,
  random: number,
  policy: Pick<RetryPolicy, "baseMs" | "maxMs">,
): number {
  const full = Math.min(policy.maxMs, policy.baseMs * 2 ** Math.min(repeated, 30));
  return full / 2 + (full / 2) * random;
}

/** Whether no connection came about, where the platform says so. */
function wasRefused(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ((cause as { code?: unknown }).code === "ECONNREFUSED") return true;
  }
  return false;
}
