/** The client: an address, a token, and the resources below them. */

import type { CallOptions } from "./abort.js";
import { SlipwayError } from "./errors.js";
import { events, type EventOptions } from "./events.js";
import { List } from "./pages.js";
import { Sandboxes } from "./sandboxes.js";
import type { AgentView, EventView, ModelView, OwnQuota, SecretSpec, SecretView } from "./schema.js";
import { Snapshots } from "./snapshots.js";
import { Transport, type Call, type SlipwayOptions } from "./transport.js";

/**
 * A client of one hostd.
 *
 * ```ts
 * const slipway = new Slipway("http://127.0.0.1:9090", token);
 * const sandbox = await slipway.sandboxes.create({ name: "web" });
 * const { stdout } = await sandbox.run("echo hello");
 * ```
 */
export class Slipway {
  readonly sandboxes: Sandboxes;
  readonly snapshots: Snapshots;
  readonly secrets: Secrets;
  readonly #transport: Transport;

  /** Without an address and a token: those of `SLIPWAY_URL` and `SLIPWAY_TOKEN`, where there is an environment. */
  constructor(url?: string, token?: string, options: SlipwayOptions = {}) {
    const address = url ?? environment("SLIPWAY_URL");
    if (address === undefined) throw new SlipwayError("needs the URL of hostd, or SLIPWAY_URL");
    // A token of the environment is for the address of the environment.
    const secret = token ?? (url === undefined ? environment("SLIPWAY_TOKEN") : undefined);
    this.#transport = new Transport(address, secret, options);
    this.sandboxes = new Sandboxes(this.#transport);
    this.snapshots = new Snapshots(this.#transport);
    this.secrets = new Secrets(this.#transport);
  }

  /** Events of everything that the caller may see, as they happen. It ends when the caller leaves. */
  events(options: EventOptions & { sandbox?: string; task?: string } = {}): AsyncGenerator<EventView, void, void> {
    const query = { sandbox: options.sandbox, task: options.task };
    return events<EventView>(this.#transport, "/v1/events", query, options);
  }

  agents(options: CallOptions = {}): List<AgentView> {
    return new List(this.#transport, "/v1/agents", {}, options);
  }

  models(options: CallOptions = {}): List<ModelView> {
    return new List(this.#transport, "/v1/models", {}, options);
  }

  /** Returns what the caller may use, and does use. */
  async quota(options: CallOptions = {}): Promise<OwnQuota> {
    return this.#transport.json({ method: "GET", path: "/v1/quota" }, options);
  }

  /** Any call of the API that has no method here, with the same token, repetitions and errors. */
  async request<T>(
    method: Call["method"],
    path: string,
    options: CallOptions & Pick<Call, "query" | "json" | "repeatable" | "creates"> = {},
  ): Promise<T> {
    const { query, json, repeatable, creates } = options;
    return this.#transport.json<T>({ method, path, query, json, repeatable, creates }, options);
  }
}

/** Secrets of the tenant. No answer has their values. */
export class Secrets {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  list(options: CallOptions = {}): List<SecretView> {
    return new List(this.#transport, "/v1/secrets", {}, options);
  }

  async put(name: string, secret: SecretSpec, options: CallOptions = {}): Promise<SecretView> {
    const path = `/v1/secrets/${encodeURIComponent(name)}`;
    return this.#transport.json({ method: "PUT", path, json: secret }, options);
  }

  async delete(name: string, options: CallOptions = {}): Promise<void> {
    await this.#transport.done({ method: "DELETE", path: `/v1/secrets/${encodeURIComponent(name)}` }, options);
  }
}

function environment(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}
