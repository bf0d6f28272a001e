/** A sandbox, and what is done with it. */

import type { CallOptions } from "./abort.js";
import { events, type EventOptions } from "./events.js";
import { Exec } from "./exec.js";
import { Files } from "./files.js";
import { List } from "./pages.js";
import { Previews } from "./previews.js";
import { execCreate, run, start, type Command, type CommandOptions, type RunOptions, type RunResult } from "./run.js";
import type {
  ActivityView,
  ExecAnswer,
  EventView,
  LimitsChange,
  SandboxChange,
  SandboxView,
  StatsView,
} from "./schema.js";
import { Services } from "./services.js";
import { SandboxSnapshots } from "./snapshots.js";
import { Tasks } from "./tasks.js";
import { Terminal, type AttachOptions } from "./terminal.js";
import { OPERATION_TIMEOUT_MS, newKey, type Call, type Transport } from "./transport.js";

export interface WaitOptions extends CallOptions {
  /** How long hostd waits for the end of the operation, as `30s`; `0` answers at once. Default: to its end. */
  wait?: string | undefined;
}

export interface ExecOptions extends CommandOptions {
  /** Keeps standard input open for `write`. */
  stdinOpen?: boolean | undefined;
}

export interface TerminalOptions extends CommandOptions {
  cols?: number | undefined;
  rows?: number | undefined;
}

/** A sandbox. `sandboxes.create`, `get` and `ensure` return it. */
export class Sandbox {
  readonly id: string;
  /** As it was when it was last asked for. */
  view: SandboxView;
  readonly files: Files;
  readonly tasks: Tasks;
  readonly services: Services;
  readonly snapshots: SandboxSnapshots;
  readonly previews: Previews;
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, view: SandboxView) {
    this.id = view.id;
    this.view = view;
    this.#transport = transport;
    this.#path = `/v1/sandboxes/${encodeURIComponent(view.id)}`;
    this.files = new Files(transport, this.#path);
    this.tasks = new Tasks(transport, this.#path);
    this.services = new Services(transport, this.#path);
    this.snapshots = new SandboxSnapshots(transport, view.id);
    this.previews = new Previews(transport, this.#path);
  }

  /** Runs a command to its end. One that fails is a value; with `check` it is a `CommandError`. */
  async run(command: Command, options: RunOptions = {}): Promise<RunResult> {
    return run(this.#transport, this.#execs, command, options);
  }

  /** Starts a command, whose output is streamed and which can be written to. */
  async exec(command: Command, options: ExecOptions = {}): Promise<Exec> {
    const id = options.id ?? newKey();
    const body = { ...execCreate(command, options), id, stdin_open: options.stdinOpen, wait: false };
    await start(this.#transport, this.#execs, body, options);
    // Text in the request comes before what is written.
    const fresh = options.id === undefined && options.stdin === undefined;
    return new Exec(this.#transport, this.#execs, id, fresh);
  }

  /** A command that was started before, by this id. It is not asked for: `get` does. */
  attachExec(id: string): Exec {
    return new Exec(this.#transport, this.#execs, id);
  }

  /** Commands and terminals, newest first. */
  execs(options: CallOptions = {}): List<ExecAnswer> {
    return new List(this.#transport, this.#execs, {}, options);
  }

  /** Starts a program on a terminal. Default: a login shell. */
  async terminal(command: Command = ["bash", "-l"], options: TerminalOptions = {}): Promise<Terminal> {
    const id = options.id ?? newKey();
    const tty = { cols: options.cols ?? 80, rows: options.rows ?? 24 };
    await start(this.#transport, this.#execs, { ...execCreate(command, options), id, tty, wait: false }, options);
    return this.attachTerminal(id, { after: 0 });
  }

  /** A terminal that was started before. With `after` its output begins exactly at that byte. */
  attachTerminal(id: string, options: AttachOptions = {}): Terminal {
    return new Terminal(this.#transport, this.#path, id, options);
  }

  /** Events of the sandbox and of its tasks, as they happen. It ends when the caller leaves. */
  events(options: EventOptions = {}): AsyncGenerator<EventView, void, void> {
    return events<EventView>(this.#transport, `${this.#path}/events`, {}, options);
  }

  async refresh(options: CallOptions = {}): Promise<SandboxView> {
    return this.#update({ method: "GET", path: this.#path }, options);
  }

  /** Changes name or metadata. */
  async update(change: SandboxChange, options: CallOptions = {}): Promise<SandboxView> {
    return this.#update({ method: "PATCH", path: this.#path, json: change }, options);
  }

  async start(options: WaitOptions = {}): Promise<SandboxView> {
    return this.#operation("start", options);
  }

  async stop(options: WaitOptions = {}): Promise<SandboxView> {
    return this.#operation("stop", options);
  }

  async pause(options: WaitOptions = {}): Promise<SandboxView> {
    return this.#operation("pause", options);
  }

  async resume(options: WaitOptions = {}): Promise<SandboxView> {
    return this.#operation("resume", options);
  }

  /** Stops it and starts it from its frozen blueprint. */
  async recreate(options: WaitOptions & { workspace?: "keep" | "remove" } = {}): Promise<SandboxView> {
    return this.#operation("recreate", options, { workspace: options.workspace });
  }

  /** Destroys it, with its files unless they are kept. */
  async delete(options: WaitOptions & { workspace?: "keep" | "remove" } = {}): Promise<SandboxView> {
    const query = { wait: options.wait, workspace: options.workspace };
    const call = { method: "DELETE", path: this.#path, query, defaultTimeoutMs: OPERATION_TIMEOUT_MS } as const;
    return this.#update(call, options);
  }

  /** Postpones its sleep. */
  async keepalive(options: CallOptions = {}): Promise<SandboxView> {
    return this.#update({ method: "POST", path: `${this.#path}/keepalive`, repeatable: "safe" }, options);
  }

  /** Changes its remaining lifetime, as `2h`. */
  async setTtl(ttl: string | null, options: CallOptions = {}): Promise<SandboxView> {
    return this.#update({ method: "PATCH", path: `${this.#path}/ttl`, json: { ttl } }, options);
  }

  /** Changes its limits, also while it runs. */
  async setLimits(limits: LimitsChange, options: CallOptions = {}): Promise<SandboxView> {
    return this.#update({ method: "PATCH", path: `${this.#path}/limits`, json: limits }, options);
  }

  /** Why it is awake, and when it will sleep. */
  async activity(options: CallOptions = {}): Promise<ActivityView> {
    return this.#transport.json({ method: "GET", path: `${this.#path}/activity` }, options);
  }

  async stats(options: CallOptions = {}): Promise<StatsView> {
    return this.#transport.json({ method: "GET", path: `${this.#path}/stats` }, options);
  }

  get #execs(): string {
    return `${this.#path}/execs`;
  }

  async #operation(verb: string, options: WaitOptions, query: Call["query"] = {}): Promise<SandboxView> {
    const repeatable = verb === "recreate" ? "once" : "safe";
    const call = { method: "POST", path: `${this.#path}/${verb}`, query: { wait: options.wait, ...query } } as const;
    return this.#update({ ...call, repeatable, defaultTimeoutMs: OPERATION_TIMEOUT_MS }, options);
  }

  async #update(call: Call, options: CallOptions): Promise<SandboxView> {
    this.view = await this.#transport.json<SandboxView>(call, options);
    return this.view;
  }
}
