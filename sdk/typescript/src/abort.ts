/** Time limits, pauses and cancellation, all by `AbortSignal`. */

import { DeadlineExceededError } from "./errors.js";

/** Options of every call. */
export interface CallOptions {
  /** Ends the call; it throws the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Milliseconds that the call may take, with its repetitions; 0 is for ever. */
  timeoutMs?: number | undefined;
}

/** A signal that is aborted by the caller's, or when time is up. `release` ends the timer. */
export interface Deadline {
  signal: AbortSignal;
  release(): void;
}

export function deadline(options: CallOptions, defaultMs: number): Deadline {
  const ms = options.timeoutMs ?? defaultMs;
  const controller = new AbortController();
  const outer = options.signal;
  const pass = () => controller.abort(outer?.reason);
  if (outer?.aborted) pass();
  outer?.addEventListener("abort", pass, { once: true });
  const expire = () => controller.abort(new DeadlineExceededError(`the call took longer than ${ms} ms`));
  const timer = ms > 0 ? setTimeout(expire, ms) : undefined;
  return {
    signal: controller.signal,
    release() {
      clearTimeout(timer);
      outer?.removeEventListener("abort", pass);
    },
  };
}

/** Waits, unless the signal is aborted. A browser that comes back online waits no longer. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const events = globalThis as { addEventListener?: unknown };
    const online = typeof events.addEventListener === "function" && typeof document !== "undefined";
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      if (online) removeEventListener("online", done);
    };
    const done = () => {
      end();
      resolve();
    };
    const abort = () => {
      end();
      reject(signal?.reason);
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", abort, { once: true });
    if (online) addEventListener("online", done);
  });
}
