/** Waits for the end of a command, however long that takes and whatever becomes of hostd meanwhile. */

import type { CallOptions } from "./abort.js";
import { DeadlineExceededError } from "./errors.js";
import type { ExecAnswer } from "./schema.js";
import type { Call, Transport } from "./transport.js";

/** How long one request waits for the end of a command. */
const WAIT_S = 60;
/** Longer than hostd waits for a `GET`. */
const REQUEST_MS = (WAIT_S + 30) * 1_000;

/**
 * The command at its end. `first` starts it, and is enough for a short one; a long one is asked for again and again.
 * `timeoutMs` of the options is for the whole of it; without one it is for ever.
 */
export async function ending(
  transport: Transport,
  path: string,
  first: Call | null,
  options: CallOptions,
): Promise<ExecAnswer> {
  const until = options.timeoutMs ? Date.now() + options.timeoutMs : Infinity;
  const again: Call = { method: "GET", path, query: { wait: `${WAIT_S}s` } };
  for (let call = first ?? again; ; call = again) {
    const leftMs = until - Date.now();
    if (leftMs <= 0) throw new DeadlineExceededError(`the command took longer than ${options.timeoutMs} ms`);
    const timeoutMs = Math.min(leftMs, REQUEST_MS);
    try {
      const answer = await transport.json<ExecAnswer>(call, { signal: options.signal, timeoutMs });
      if (answer.state === "ended") return answer;
    } catch (error) {
      if (!(error instanceof DeadlineExceededError) || timeoutMs === leftMs) throw error;
    }
  }
}
