/**
 * Streams of server-sent events that outlive their connections. A stream that is cut, or that sends no byte for too
 * long, is opened again after the last message seen; messages that come twice are dropped.
 */

import { sleep, type CallOptions } from "./abort.js";
import { ApiError, SlipwayError, TransportError, errorOf } from "./errors.js";
import { backoff } from "./retry.js";
import { SseParser, type SseMessage } from "./sse.js";
import type { Query, Transport } from "./transport.js";

/** How a stream is opened and read. */
export interface StreamPlan<T> {
  path: string;
  /** The query, and the headers, that continue after the message with this id; null for the beginning. */
  resume(id: string | null): { query: Query; headers?: Record<string, string> };
  /** Returns the item of a message; `undefined` for a message that is none. */
  read(message: SseMessage): T | undefined;
  /** Whether the id is not after the other one, so that the message was seen already. */
  seen(id: string, last: string): boolean;
  /** Whether nothing follows this message. */
  last(message: SseMessage): boolean;
  /** The id to begin after. */
  from?: string | null;
}

const FIRST_PAUSE_MS = 100;
const PAUSE_MAX_MS = 5_000;

/** Follows a stream to its end. `break` ends it, and so does the signal, whose reason is thrown. */
export async function* follow<T>(
  transport: Transport,
  plan: StreamPlan<T>,
  options: CallOptions = {},
): AsyncGenerator<T, void, void> {
  let id = plan.from ?? null;
  let failures = 0;
  let outageSince: number | null = null;
  for (;;) {
    const connection = new Connection(transport, plan, id, options.signal);
    let afterMs = 0;
    try {
      for await (const message of connection.messages()) {
        outageSince = null;
        if (message === null) continue;
        failures = 0;
        if (message.id !== "") {
          if (id !== null && plan.seen(message.id, id)) continue;
          id = message.id;
        }
        const item = plan.read(message);
        if (item !== undefined) yield item;
        if (plan.last(message)) return;
      }
      if (connection.over) return;
    } catch (error) {
      if (options.signal?.aborted || !(error instanceof SlipwayError) || !error.retryable) throw error;
      outageSince ??= Date.now();
      if (Date.now() - outageSince > transport.outageMs) throw error;
      if (error instanceof ApiError) afterMs = error.retryAfterMs ?? 0;
    } finally {
      connection.close();
    }
    const pauseMs = backoff(failures, Math.random(), { baseMs: FIRST_PAUSE_MS, maxMs: PAUSE_MAX_MS });
    failures += 1;
    await sleep(Math.max(pauseMs, afterMs), options.signal);
  }
}

/** A connection of a stream. */
class Connection<T> {
  /** The server said that nothing will follow. */
  over = false;
  readonly #controller = new AbortController();
  #watchdog: ReturnType<typeof setTimeout> | undefined;
  readonly #pass: () => void;

  constructor(
    private readonly transport: Transport,
    private readonly plan: StreamPlan<T>,
    private readonly id: string | null,
    private readonly outer: AbortSignal | undefined,
  ) {
    this.#pass = () => this.#controller.abort(outer?.reason);
    if (outer?.aborted) this.#pass();
    outer?.addEventListener("abort", this.#pass, { once: true });
  }

  /** The messages, and null for bytes without one: the connection is alive. */
  async *messages(): AsyncGenerator<SseMessage | null, void, void> {
    const { query, headers } = this.plan.resume(this.id);
    const call = { method: "GET", path: this.plan.path, query } as const;
    this.#watch();
    const accept = { Accept: "text/event-stream", ...headers };
    const response = await this.transport.send({ ...call, headers: accept }, this.#controller.signal);
    if (response.status === 204) {
      this.over = true;
      return;
    }
    if (!response.ok || !response.body) {
      throw errorOf(response, await response.text().catch(() => ""));
    }
    const parser = new SseParser();
    const reader = response.body.getReader();
    for (;;) {
      // Only while it is read: a consumer may take its time.
      this.#watch();
      const read = await this.#read(reader);
      clearTimeout(this.#watchdog);
      if (read === null) return;
      yield null;
      yield* parser.push(read);
    }
  }

  close(): void {
    clearTimeout(this.#watchdog);
    this.outer?.removeEventListener("abort", this.#pass);
    this.#controller.abort();
  }

  async #read(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<Uint8Array | null> {
    try {
      const { done, value } = await reader.read();
      return done ? null : value;
    } catch (cause) {
      if (this.#controller.signal.aborted) throw this.#controller.signal.reason;
      throw new TransportError("the stream was cut off", cause);
    }
  }

  /** Ends a connection that is silent for too long. */
  #watch(): void {
    clearTimeout(this.#watchdog);
    const { silenceMs } = this.transport;
    const end = () => this.#controller.abort(new TransportError(`no byte for ${silenceMs} ms`));
    this.#watchdog = setTimeout(end, silenceMs);
  }
}
