/** Coding tasks of agents in a sandbox. */

import type { CallOptions } from "./abort.js";
import { ProtocolError } from "./errors.js";
import { events, type EventOptions } from "./events.js";
import { output, type Output, type OutputOptions } from "./output.js";
import { List } from "./pages.js";
import type {
  FileDiffView,
  TaskAnswer,
  TaskCreate,
  TaskEventView,
  TaskResult,
  TaskRevert,
  TaskRevertView,
} from "./schema.js";
import { OPERATION_TIMEOUT_MS, newKey, type Transport } from "./transport.js";

/** A task. It goes on whatever becomes of this object, and of hostd. */
export class Task {
  readonly id: string;
  /** As it was when it was last asked for. */
  view: TaskAnswer;
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, tasks: string, view: TaskAnswer) {
    this.id = view.id;
    this.view = view;
    this.#transport = transport;
    this.#path = `${tasks}/${encodeURIComponent(view.id)}`;
  }

  async refresh(options: CallOptions = {}): Promise<TaskAnswer> {
    this.view = await this.#transport.json({ method: "GET", path: this.#path }, options);
    return this.view;
  }

  /**
   * Its events until `done`, which is last and has the result. Each comes once and in order, however often the
   * connection is cut. A `switch` over `kind` narrows the type; a newer hostd may send kinds that are not in it.
   */
  events(options: EventOptions = {}): AsyncGenerator<TaskEventView, void, void> {
    const path = `${this.#path}/events`;
    return events<TaskEventView>(this.#transport, path, {}, options, (message) => message.event === "done");
  }

  /** Waits for its end. A task that fails is a value: `status` and `failure_reason` say why. */
  async result(options: CallOptions = {}): Promise<TaskResult> {
    for await (const _ of this.events({ ...options, kind: "done" }));
    const { result } = await this.refresh(options);
    if (!result) throw new ProtocolError(`task ${this.id} has ended without a result`);
    return result;
  }

  /** Asks for its end, in any phase; `result` waits for it. */
  async cancel(options: CallOptions = {}): Promise<TaskAnswer> {
    const call = { method: "POST", path: `${this.#path}/cancel`, repeatable: "safe" } as const;
    this.view = await this.#transport.json(call, options);
    return this.view;
  }

  /** Answers a permission request of its agent: the `id` of an event `permission`. */
  async answer(
    permission: string,
    decision: "allow" | "deny",
    options: CallOptions & { option?: string } = {},
  ): Promise<void> {
    const path = `${this.#path}/permissions/${encodeURIComponent(permission)}`;
    await this.#transport.done({ method: "POST", path, json: { decision, option: options.option } }, options);
  }

  /** Yields what the task changed, file by file. */
  changes(options: CallOptions = {}): AsyncGenerator<FileDiffView, void, void> {
    return changes(this.#transport, `${this.#path}/changes`, options);
  }

  /** Restores the files from before the task. */
  async revert(revert: TaskRevert = {}, options: CallOptions = {}): Promise<TaskRevertView> {
    const call = { method: "POST", path: `${this.#path}/revert`, json: revert, creates: true } as const;
    return this.#transport.json({ ...call, defaultTimeoutMs: OPERATION_TIMEOUT_MS }, options);
  }

  /** Everything its agent printed. */
  log(options: OutputOptions = {}): AsyncGenerator<Output, void, void> {
    return output(this.#transport, `${this.#path}/log`, options);
  }
}

async function* changes(
  transport: Transport,
  path: string,
  options: CallOptions,
): AsyncGenerator<FileDiffView, void, void> {
  let after: string | null | undefined;
  do {
    const call = { method: "GET", path, query: { after } } as const;
    const page = await transport.json<{ files?: FileDiffView[]; next?: string | null }>(call, options);
    yield* page.files ?? [];
    after = page.next;
  } while (after);
}

/** Tasks of one sandbox. */
export class Tasks {
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, sandbox: string) {
    this.#transport = transport;
    this.#path = `${sandbox}/tasks`;
  }

  /** Stores a task, which is then carried out whatever becomes of the client. The same `id` is the same task. */
  async submit(task: TaskCreate, options: CallOptions = {}): Promise<Task> {
    const json = { ...task, id: task.id ?? newKey() };
    const call = { method: "POST", path: this.#path, json, repeatable: "safe" } as const;
    return new Task(this.#transport, this.#path, await this.#transport.json<TaskAnswer>(call, options));
  }

  async get(id: string, options: CallOptions = {}): Promise<Task> {
    const path = `${this.#path}/${encodeURIComponent(id)}`;
    const view = await this.#transport.json<TaskAnswer>({ method: "GET", path }, options);
    return new Task(this.#transport, this.#path, view);
  }

  /** Newest first. */
  list(options: CallOptions = {}): List<TaskAnswer> {
    return new List(this.#transport, this.#path, {}, options);
  }
}
