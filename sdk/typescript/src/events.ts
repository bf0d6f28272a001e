/** Events, as streams that resume. */

import type { CallOptions } from "./abort.js";
import { ProtocolError } from "./errors.js";
import type { EventView, TaskEventView } from "./schema.js";
import type { SseMessage } from "./sse.js";
import { follow, type StreamPlan } from "./stream.js";
import type { Query, Transport } from "./transport.js";

export interface EventOptions extends CallOptions {
  /** Begins after the event with this `seq`. Default: at the beginning of what is kept. */
  since?: number | undefined;
  /** Beginnings of kinds: `["exec.", "sandbox.running"]`. Default: all. */
  kind?: string | readonly string[] | undefined;
}

/** Events of the API: in order, without gaps and without duplicates, however often the connection is cut. */
export function events<E extends EventView | TaskEventView>(
  transport: Transport,
  path: string,
  query: Query,
  options: EventOptions,
  isLast: (message: SseMessage) => boolean = () => false,
): AsyncGenerator<E, void, void> {
  const kind = typeof options.kind === "string" ? [options.kind] : options.kind;
  const plan: StreamPlan<E> = {
    path,
    from: options.since === undefined ? null : String(options.since),
    resume: (id) => ({
      query: { ...query, kind, follow: 1 },
      ...(id === null ? {} : { headers: { "Last-Event-ID": id } }),
    }),
    read: (message) => json<E>(message),
    seen: (id, last) => Number(id) <= Number(last),
    last: isLast,
  };
  return follow(transport, plan, options);
}

/** The object in a message. */
export function json<T>(message: SseMessage): T {
  try {
    return JSON.parse(message.data) as T;
  } catch (cause) {
    throw new ProtocolError("a message of the stream is not JSON", { cause });
  }
}
