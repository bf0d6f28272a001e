/** A terminal: an exec on a PTY that viewers attach to and leave. */

import { sleep, type CallOptions } from "./abort.js";
import { SlipwayError, TransportError } from "./errors.js";
import { Exec } from "./exec.js";
import { backoff } from "./retry.js";
import type { Exit } from "./schema.js";
import type { Transport } from "./transport.js";

export interface AttachOptions {
  /** Begins exactly at this byte of the output. Default: the last 64 KiB. */
  after?: number | undefined;
  /** Whether a sleeping sandbox is woken. Default: true. */
  wake?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

const SUBPROTOCOL = "slipway.terminal";
const MESSAGE_MAX_BYTES = 64 * 1024;
/** Output that nobody reads is left at hostd beyond this: the viewer leaves, and attaches again where it was. */
const UNREAD_MAX_BYTES = 4 * 1024 * 1024;
const utf8 = new TextEncoder();

type Arrived =
  | { kind: "bytes"; data: Uint8Array }
  | { kind: "position"; position: number }
  | { kind: "exit"; exit: Exit }
  | { kind: "closed"; code: number };

/** A terminal of a sandbox. Its program goes on whatever becomes of this viewer. */
export class Terminal {
  readonly id: string;
  /** The byte of the output after the last one that was read: `after` of a later `attach` continues there. */
  position: number | null;
  /** How the program ended; null until all output was read. */
  exit: Exit | null = null;
  readonly #transport: Transport;
  readonly #sandbox: string;
  readonly #exec: Exec;
  readonly #wake: boolean;
  readonly #signal: AbortSignal | undefined;
  readonly #detached = new AbortController();
  #viewer: Viewer | null = null;
  /** Requests with input that have not been answered. */
  #requests = 0;

  constructor(transport: Transport, sandbox: string, id: string, options: AttachOptions = {}) {
    this.id = id;
    this.position = options.after ?? null;
    this.#transport = transport;
    this.#sandbox = sandbox;
    this.#exec = new Exec(transport, `${sandbox}/execs`, id);
    this.#wake = options.wake ?? true;
    const { signal } = options;
    this.#signal = signal;
    if (signal?.aborted) this.#detached.abort(signal.reason);
    signal?.addEventListener("abort", () => this.#detached.abort(signal.reason), { once: true });
    this.#detached.signal.addEventListener("abort", () => this.#viewer?.close(), { once: true });
  }

  /**
   * The output, until the program ends. A viewer that is cut attaches again exactly where it was: no byte is missing,
   * none comes twice.
   */
  async *output(): AsyncGenerator<Uint8Array, void, void> {
    try {
      yield* this.#output();
    } catch (error) {
      // Leaving ends the output; the caller's signal fails it.
      if (!this.#detached.signal.aborted || this.#signal?.aborted) throw error;
    }
  }

  async *#output(): AsyncGenerator<Uint8Array, void, void> {
    let failures = 0;
    let outageSince: number | null = null;
    while (this.exit === null) {
      const viewer = this.#attach();
      try {
        for await (const arrived of viewer.messages()) {
          if (arrived.kind === "closed") {
            outageSince ??= Date.now();
            await this.#closed(arrived.code, viewer.opened, outageSince);
            continue;
          }
          failures = 0;
          outageSince = null;
          if (arrived.kind === "bytes") {
            this.position = (this.position ?? 0) + arrived.data.length;
            yield arrived.data;
          } else if (arrived.kind === "position") this.position = arrived.position;
          else this.exit = arrived.exit;
        }
      } finally {
        viewer.close();
      }
      if (this.exit !== null) return;
      this.#detached.signal.throwIfAborted();
      if (viewer.left) continue;
      await sleep(backoff(failures, Math.random(), { baseMs: 100, maxMs: 5_000 }), this.#detached.signal);
      failures += 1;
    }
  }

  /** Types. What is typed while the connection is cut may be lost, and is never typed twice. */
  async write(data: string | Uint8Array, options: CallOptions = {}): Promise<void> {
    const bytes = typeof data === "string" ? utf8.encode(data) : data;
    // In order: not by the socket while earlier input is on its way by a request.
    if (!this.#viewer?.isOpen || this.#requests > 0) {
      this.#requests += 1;
      await this.#exec.write(bytes, options).finally(() => (this.#requests -= 1));
      return;
    }
    for (let at = 0; at < bytes.length; at += MESSAGE_MAX_BYTES) {
      this.#viewer.send(bytes.slice(at, at + MESSAGE_MAX_BYTES));
    }
  }

  /** Changes the size of the window. */
  async resize(cols: number, rows: number, options: CallOptions = {}): Promise<void> {
    await this.#exec.resize(cols, rows, options);
  }

  /** Sends a signal to the program. */
  async signal(name: string, options: CallOptions = {}): Promise<void> {
    await this.#exec.signal(name, options);
  }

  /** Ends the program and everything it started. */
  async cancel(options: CallOptions = {}): Promise<void> {
    await this.#exec.cancel(options);
  }

  /** Leaves. The program goes on. */
  detach(): void {
    this.#detached.abort();
  }

  #attach(): Viewer {
    this.#detached.signal.throwIfAborted();
    const query = { after: this.position, wake: this.#wake ? undefined : 0, skip: 0 };
    const path = `${this.#sandbox}/terminals/${encodeURIComponent(this.id)}`;
    this.#viewer = new Viewer(this.#transport.webSocket(path, query, SUBPROTOCOL), this.#transport.silenceMs);
    return this.#viewer;
  }

  /** Throws where attaching again does not help. */
  async #closed(code: number, opened: boolean, outageSince: number): Promise<void> {
    if (code === 1002 || code === 1008 || code === 1009) {
      throw new SlipwayError(`hostd closed the terminal as wrong (${code})`);
    }
    // A WebSocket does not say why it was refused: the exec does.
    if (!opened && !this.#detached.signal.aborted) await this.#exec.get({ signal: this.#detached.signal });
    if (Date.now() - outageSince > this.#transport.outageMs) {
      throw new TransportError("the terminal could not be attached again");
    }
  }
}

/** A WebSocket, as messages to be read. */
class Viewer {
  opened = false;
  /** Whether the viewer left by itself, to attach again at once: nobody read, or nothing came for so long that it may be dead. */
  left = false;
  readonly #socket: WebSocket;
  readonly #queue: Arrived[] = [];
  #queuedBytes = 0;
  #ended = false;
  #wake: () => void = () => undefined;
  #watchdog: ReturnType<typeof setTimeout> | undefined;

  constructor(
    socket: WebSocket,
    private readonly silenceMs: number,
  ) {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => (this.opened = true);
    socket.onmessage = ({ data }: MessageEvent) => this.#arrived(data as ArrayBuffer | string);
    socket.onclose = ({ code }: CloseEvent) => this.#end(code);
    // A close follows it, but in Node.js 20 not where no connection came about.
    socket.onerror = () => this.#end(1006);
    this.#watch();
  }

  get isOpen(): boolean {
    return this.#socket.readyState === 1;
  }

  send(data: Uint8Array<ArrayBuffer>): void {
    this.#socket.send(data);
  }

  close(code = 1000): void {
    if (this.#socket.readyState < 2) this.#socket.close();
    this.#end(code);
  }

  async *messages(): AsyncGenerator<Arrived, void, void> {
    for (;;) {
      const next = this.#queue.shift();
      if (next) {
        if (next.kind === "bytes") this.#queuedBytes -= next.data.length;
        yield next;
      } else if (this.#ended) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** A WebSocket does not show the pings of hostd: one that is silent for long is replaced, which costs little. */
  #watch(): void {
    clearTimeout(this.#watchdog);
    if (this.#ended) return;
    this.#watchdog = setTimeout(() => {
      this.left = this.opened;
      this.close(1006);
    }, this.silenceMs);
  }

  #arrived(data: ArrayBuffer | string): void {
    if (this.#ended) return;
    this.#watch();
    if (typeof data !== "string") {
      this.#queuedBytes += data.byteLength;
      this.#push({ kind: "bytes", data: new Uint8Array(data) });
      if (this.#queuedBytes > UNREAD_MAX_BYTES) {
        this.left = true;
        this.close();
      }
      return;
    }
    const said = JSON.parse(data) as { position?: number; exit?: Exit };
    if (said.position !== undefined) this.#push({ kind: "position", position: said.position });
    if (said.exit !== undefined) this.#push({ kind: "exit", exit: said.exit });
  }

  #end(code: number): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#watchdog);
    if (!this.left) this.#queue.push({ kind: "closed", code });
    this.#wake();
  }

  #push(arrived: Arrived): void {
    this.#queue.push(arrived);
    this.#wake();
  }
}
