/** A command that was started: its output, input and end. */

import type { CallOptions } from "./abort.js";
import { ending } from "./ending.js";
import { output, type Output, type OutputOptions } from "./output.js";
import type { ExecAnswer } from "./schema.js";
import { resultOf, type RunResult } from "./run.js";
import type { Transport } from "./transport.js";

/** Largest request of input. */
const INPUT_MAX_BYTES = 1024 * 1024;
const utf8 = new TextEncoder();

/** A command of a sandbox. It goes on whatever becomes of this object, and of hostd. */
export class Exec {
  readonly id: string;
  protected readonly transport: Transport;
  readonly #path: string;
  #sent: number | null = 0;
  #sending: Promise<void> = Promise.resolve();

  /** `fresh` says that no other client has sent input: only then is a repeated piece of it recognised. */
  constructor(transport: Transport, execs: string, id: string, fresh = false) {
    this.id = id;
    this.transport = transport;
    this.#path = `${execs}/${encodeURIComponent(id)}`;
    if (!fresh) this.#sent = null;
  }

  /** Returns what is known of the command; with the output once it has ended. */
  async get(options: CallOptions = {}): Promise<ExecAnswer> {
    return this.transport.json({ method: "GET", path: this.#path }, options);
  }

  /** Waits for its end; without `timeoutMs` for ever. */
  async wait(options: CallOptions = {}): Promise<RunResult> {
    return resultOf(await ending(this.transport, this.#path, null, options));
  }

  /** Its output from the beginning, or after a `cursor`, until it ends. It resumes by itself when a connection is cut. */
  output(options: OutputOptions = {}): AsyncGenerator<Output, void, void> {
    return output(this.transport, `${this.#path}/output`, options);
  }

  /**
   * Writes to its standard input, which must have been opened with `stdinOpen` (or a terminal). Pieces arrive in
   * order. Of a command that this object started none arrives twice, also if a connection is cut.
   */
  async write(data: string | Uint8Array, options: CallOptions = {}): Promise<void> {
    const bytes = typeof data === "string" ? utf8.encode(data) : data;
    await this.#send(bytes, false, options);
  }

  /** Ends its standard input. */
  async closeStdin(options: CallOptions = {}): Promise<void> {
    await this.#send(new Uint8Array(0), true, options);
  }

  /** Sends a signal, as `INT` or `TERM`, to the command. */
  async signal(name: string, options: CallOptions = {}): Promise<void> {
    await this.#post("signal", { signal: name }, options, "once");
  }

  /** Ends the command and everything it started: TERM, then KILL. */
  async cancel(options: CallOptions = {}): Promise<void> {
    await this.#post("cancel", {}, options, "safe");
  }

  /** Changes the size of its terminal. */
  async resize(cols: number, rows: number, options: CallOptions = {}): Promise<void> {
    await this.#post("resize", { cols, rows }, options, "safe");
  }

  async #post(verb: string, json: object, options: CallOptions, repeatable: "safe" | "once"): Promise<void> {
    await this.transport.done({ method: "POST", path: `${this.#path}/${verb}`, json, repeatable }, options);
  }

  /** Sends pieces one after the other: the position of one is known when the one before has arrived. */
  async #send(bytes: Uint8Array, eof: boolean, options: CallOptions): Promise<void> {
    const before = this.#sending;
    const sent = before.catch(() => undefined).then(() => this.#sendNow(bytes, eof, options));
    this.#sending = sent.catch(() => undefined);
    await sent;
  }

  async #sendNow(bytes: Uint8Array, eof: boolean, options: CallOptions): Promise<void> {
    let start = 0;
    do {
      const body = bytes.subarray(start, start + INPUT_MAX_BYTES);
      start += body.length;
      const query = { at: this.#sent ?? undefined, eof: eof && start >= bytes.length ? 1 : undefined };
      const repeatable = this.#sent === null ? "once" : "safe";
      const call = { method: "POST", path: `${this.#path}/stdin`, query, body, repeatable } as const;
      await this.transport.done(call, options);
      if (this.#sent !== null) this.#sent += body.length;
    } while (start < bytes.length);
  }
}
