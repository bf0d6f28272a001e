/** Sandboxes of the caller. */

import type { CallOptions } from "./abort.js";
import { List } from "./pages.js";
import { Sandbox, type WaitOptions } from "./sandbox.js";
import type { EnsureAnswer, SandboxSpec, SandboxStatus, SandboxView } from "./schema.js";
import { OPERATION_TIMEOUT_MS, type Transport } from "./transport.js";

const PATH = "/v1/sandboxes";

export interface ListOptions extends CallOptions {
  status?: SandboxStatus | undefined;
  project?: string | undefined;
  /** Also those that were destroyed. */
  all?: boolean | undefined;
}

export class Sandboxes {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Creates a sandbox, and waits until it runs. A repeated request, after a cut connection, creates no second one. */
  async create(spec: SandboxSpec = {}, options: WaitOptions & { replace?: boolean } = {}): Promise<Sandbox> {
    const query = { wait: options.wait, replace: options.replace };
    const call = { method: "POST", path: PATH, query, json: spec, creates: true } as const;
    const limit = { defaultTimeoutMs: OPERATION_TIMEOUT_MS };
    return new Sandbox(this.#transport, await this.#transport.json<SandboxView>({ ...call, ...limit }, options));
  }

  /** The sandbox of this owner and `scope`, awake; created if there is none. */
  async ensure(spec: SandboxSpec, options: WaitOptions = {}): Promise<Sandbox> {
    const call = { method: "POST", path: `${PATH}/ensure`, query: { wait: options.wait }, json: spec } as const;
    // At most one has the scope: repeating it is safe without a key, and brings the present state.
    const rest = { repeatable: "safe", defaultTimeoutMs: OPERATION_TIMEOUT_MS } as const;
    return new Sandbox(this.#transport, await this.#transport.json<EnsureAnswer>({ ...call, ...rest }, options));
  }

  async get(id: string, options: CallOptions = {}): Promise<Sandbox> {
    const path = `${PATH}/${encodeURIComponent(id)}`;
    return new Sandbox(this.#transport, await this.#transport.json<SandboxView>({ method: "GET", path }, options));
  }

  /** Newest first. */
  list(options: ListOptions = {}): List<SandboxView> {
    const { status, project, all } = options;
    return new List(this.#transport, PATH, { status, project, all }, options);
  }

  /** Destroys a sandbox, with its files unless they are kept. */
  async delete(id: string, options: WaitOptions & { workspace?: "keep" | "remove" } = {}): Promise<SandboxView> {
    const query = { wait: options.wait, workspace: options.workspace };
    const call = { method: "DELETE", path: `${PATH}/${encodeURIComponent(id)}`, query } as const;
    return this.#transport.json({ ...call, defaultTimeoutMs: OPERATION_TIMEOUT_MS }, options);
  }
}
