/** Sends requests: token, time limits, repetitions, errors. The token leaves this file in a header only. */

import { deadline, sleep, type CallOptions } from "./abort.js";
import { ProtocolError, SlipwayError, TransportError, errorOf } from "./errors.js";
import { DEFAULT_RETRIES, pauseBefore, type Repeatable, type RetryPolicy } from "./retry.js";

/** A constructor like the global `WebSocket`, for platforms without it. */
export type WebSocketConstructor = new (url: string, protocols?: string[]) => WebSocket;

export interface SlipwayOptions {
  /** Milliseconds for a call that does not say, with its repetitions; 0 is for ever. Default: one minute. */
  timeoutMs?: number;
  /** How calls are repeated after a failure. */
  retry?: Partial<RetryPolicy>;
  /** A stream that sends no byte for this long is dead and is opened again. hostd sends one every 15 seconds. */
  silenceMs?: number;
  /** A stream that cannot be opened again for this long fails. Default: two minutes. */
  outageMs?: number;
  /** Instead of the global `fetch`. */
  fetch?: typeof fetch;
  /** Instead of the global `WebSocket`, for terminals. */
  WebSocket?: WebSocketConstructor;
}

export type QueryValue = string | number | boolean | Uint8Array | readonly string[] | null | undefined;
export type Query = Readonly<Record<string, QueryValue>>;

/** A request, as far as a resource describes it. */
export interface Call {
  method: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  path: string;
  query?: Query | undefined;
  headers?: Record<string, string> | undefined;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as it is. A stream can be sent once only. */
  body?: Body | undefined;
  /** Default: `once` for POST, else `safe`. */
  repeatable?: Repeatable | undefined;
  /** Sends an `Idempotency-Key`, the same for every repetition, which makes the call safe to repeat. */
  creates?: boolean | undefined;
  /** The time limit where the caller gives none. */
  defaultTimeoutMs?: number | undefined;
}

/** Content to send. */
export type Body = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array>;

const DEFAULT_TIMEOUT_MS = 60_000;
/** For calls that answer when an operation of a sandbox has ended: hostd has deadlines of its own. */
export const OPERATION_TIMEOUT_MS = 35 * 60_000;

export class Transport {
  readonly url: string;
  readonly silenceMs: number;
  readonly outageMs: number;
  readonly retry: RetryPolicy;
  readonly #token: string | undefined;
  readonly #fetch: typeof fetch;
  readonly #webSocket: WebSocketConstructor | undefined;
  readonly #timeoutMs: number;

  constructor(url: string, token: string | undefined, options: SlipwayOptions) {
    const base = new URL(url);
    if (base.protocol !== "http:" && base.protocol !== "https:") throw new TypeError("the URL must be http or https");
    if (base.username !== "" || base.password !== "") throw new TypeError("the URL must not contain a password");
    this.url = `${base.origin}${base.pathname.replace(/\/+$/, "")}`;
    this.silenceMs = options.silenceMs ?? 40_000;
    this.outageMs = options.outageMs ?? 120_000;
    this.retry = { ...DEFAULT_RETRIES, ...options.retry };
    this.#token = token;
    this.#fetch = options.fetch ?? ((...call) => globalThis.fetch(...call));
    this.#webSocket = options.WebSocket ?? globalThis.WebSocket;
    this.#timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  }

  /** The JSON of the response. */
  async json<T>(call: Call, options: CallOptions = {}): Promise<T> {
    return this.#within(call, options, async (signal) => {
      const response = await this.#repeated(call, signal);
      const text = await readBody(() => response.text(), signal);
      try {
        return JSON.parse(text) as T;
      } catch (cause) {
        throw new ProtocolError(`${call.method} ${call.path} was not answered with JSON`, { cause });
      }
    });
  }

  /** For calls whose response has no content. */
  async done(call: Call, options: CallOptions = {}): Promise<void> {
    await this.#within(call, options, async (signal) => {
      const response = await this.#repeated(call, signal);
      await readBody(() => response.arrayBuffer(), signal);
    });
  }

  /** All bytes of the response. */
  async bytes(call: Call, options: CallOptions = {}): Promise<Uint8Array> {
    return this.#within(call, options, async (signal) => {
      const response = await this.#repeated(call, signal);
      return new Uint8Array(await readBody(() => response.arrayBuffer(), signal));
    });
  }

  /** The response as it begins; `signal` ends it, and its body too. The time limit is for its beginning. */
  async open(call: Call, options: CallOptions = {}): Promise<Response> {
    const outer = options.signal;
    const begins = deadline(options, call.defaultTimeoutMs ?? this.#timeoutMs);
    try {
      return await this.#repeated(call, begins.signal, outer);
    } finally {
      begins.release();
    }
  }

  /** Sends the request once, without repetitions. The response may be an error. */
  async send(call: Call, signal: AbortSignal): Promise<Response> {
    const init: RequestInit & { duplex?: "half" } = {
      method: call.method,
      headers: this.#headers(call),
      signal,
      // The token is for this server only.
      redirect: "error",
      credentials: "omit",
      cache: "no-store",
    };
    if (call.json !== undefined) init.body = JSON.stringify(call.json);
    else if (call.body !== undefined) init.body = call.body as BodyInit;
    if (call.body instanceof ReadableStream) init.duplex = "half";
    try {
      return await this.#fetch(this.address(call.path, call.query), init);
    } catch (cause) {
      if (signal.aborted) throw signal.reason;
      throw new TransportError(`could not reach ${this.url}: ${reason(cause)}`, cause);
    }
  }

  /** The address of a path on the API. */
  address(path: string, query: Query = {}): string {
    const pairs = Object.entries(query).flatMap(([name, value]) => pair(name, value));
    return `${this.url}${path}${pairs.length > 0 ? `?${pairs.join("&")}` : ""}`;
  }

  /** Opens a WebSocket of the API. The token is a subprotocol, since browsers send no header with it. */
  webSocket(path: string, query: Query, subprotocol: string): WebSocket {
    if (!this.#webSocket) {
      throw new SlipwayError("this platform has no WebSocket: pass a constructor in the options of Slipway");
    }
    const protocols = [subprotocol];
    if (this.#token !== undefined) protocols.push(`slipway.token.${this.#token}`);
    return new this.#webSocket(this.address(path, query).replace(/^http/, "ws"), protocols);
  }

  async #within<T>(call: Call, options: CallOptions, act: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const limit = deadline(options, call.defaultTimeoutMs ?? this.#timeoutMs);
    try {
      return await act(limit.signal);
    } finally {
      limit.release();
    }
  }

  /** Repeats the call until it succeeds or must not be repeated. `outer` goes on for the body of the response. */
  async #repeated(call: Call, signal: AbortSignal, outer?: AbortSignal): Promise<Response> {
    const keyed = call.creates ? { ...call, headers: { ...call.headers, "Idempotency-Key": newKey() } } : call;
    const repeatable = repeatableOf(call);
    let cut = false;
    for (let repeated = 0; ; repeated++) {
      const attempt = await this.#attempt(keyed, signal, outer);
      if (attempt.response) return attempt.response;
      // Deleted by the request before, whose response was lost.
      if (cut && call.method === "DELETE" && attempt.status === 404) return new Response(null, { status: 204 });
      cut ||= attempt.error instanceof TransportError;
      const rule = { repeatable, repeated, random: Math.random() };
      const pauseMs = pauseBefore(attempt.error, rule, this.retry);
      if (pauseMs === null) throw attempt.error;
      await sleep(pauseMs, signal);
    }
  }

  async #attempt(call: Call, signal: AbortSignal, outer?: AbortSignal): Promise<Attempt> {
    const controller = new AbortController();
    const end = () => controller.abort(signal.aborted ? signal.reason : outer?.reason);
    if (signal.aborted || outer?.aborted) end();
    // While the response has not begun both end it; its body is ended by `outer` alone, if there is one.
    signal.addEventListener("abort", end, { once: true });
    outer?.addEventListener("abort", end, { once: true });
    let kept = false;
    try {
      const response = await this.send(call, controller.signal);
      if (response.ok) {
        kept = true;
        return { response };
      }
      const text = call.method === "HEAD" ? "" : await readBody(() => response.text(), controller.signal);
      return { error: errorOf(response, text), status: response.status };
    } catch (error) {
      if (controller.signal.aborted || !(error instanceof SlipwayError)) throw error;
      return { error, status: 0 };
    } finally {
      if (!kept || outer) signal.removeEventListener("abort", end);
      if (!kept) outer?.removeEventListener("abort", end);
    }
  }

  #headers(call: Call): Record<string, string> {
    const headers: Record<string, string> = { Accept: "application/json", ...call.headers };
    if (this.#token !== undefined) headers["Authorization"] = `Bearer ${this.#token}`;
    if (call.json !== undefined) headers["Content-Type"] = "application/json";
    else if (call.body !== undefined) headers["Content-Type"] ??= "application/octet-stream";
    return headers;
  }
}

type Attempt =
  | { response: Response }
  | { response?: undefined; error: SlipwayError; status: number };

function repeatableOf(call: Call): Repeatable {
  // A stream is gone after it was sent.
  if (call.body instanceof ReadableStream) return "once";
  if (call.creates) return "safe";
  return call.repeatable ?? (call.method === "POST" ? "once" : "safe");
}

/** Reads a body; a connection that is cut meanwhile is an error of this package. */
async function readBody<T>(read: () => Promise<T>, signal: AbortSignal): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    if (signal.aborted) throw signal.reason;
    throw new TransportError(`the response was cut off: ${reason(cause)}`, cause);
  }
}

/** Why `fetch` failed: the platform has it in the cause. */
function reason(error: unknown): string {
  const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return inner instanceof Error ? inner.message || inner.name : String(inner);
}

function pair(name: string, value: QueryValue): string[] {
  if (value === null || value === undefined) return [];
  if (value instanceof Uint8Array) {
    const bytes = Array.from(value, (byte) => `%${byte.toString(16).padStart(2, "0")}`);
    return [`${name}=${bytes.join("")}`];
  }
  const text = Array.isArray(value) ? value.join(",") : String(value);
  return [`${name}=${encodeURIComponent(text)}`];
}

/** A new id: of an exec, a task, or an idempotency key. */
export function newKey(): string {
  const random = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
