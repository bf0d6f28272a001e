/** Processes of a sandbox that should keep running. */

import type { CallOptions } from "./abort.js";
import { output, type Output, type OutputOptions } from "./output.js";
import { List } from "./pages.js";
import type { ServiceSpec, ServiceView } from "./schema.js";
import type { Transport } from "./transport.js";

export class Services {
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, sandbox: string) {
    this.#transport = transport;
    this.#path = `${sandbox}/services`;
  }

  list(options: CallOptions = {}): List<ServiceView> {
    return new List(this.#transport, this.#path, {}, options);
  }

  /** Replaces the whole set. It is stored, and applies after every start of the sandbox. */
  async replace(services: ServiceSpec[], options: CallOptions = {}): Promise<ServiceView[]> {
    const call = { method: "PUT", path: this.#path, json: { services } } as const;
    return (await this.#transport.json<{ items: ServiceView[] }>(call, options)).items;
  }

  async start(name: string, options: CallOptions = {}): Promise<ServiceView> {
    return this.#verb(name, "start", options);
  }

  async stop(name: string, options: CallOptions = {}): Promise<ServiceView> {
    return this.#verb(name, "stop", options);
  }

  async restart(name: string, options: CallOptions = {}): Promise<ServiceView> {
    return this.#verb(name, "restart", options);
  }

  /** Yields what the service printed; with `follow` also what it will print. */
  logs(name: string, options: OutputOptions = {}): AsyncGenerator<Output, void, void> {
    const path = `${this.#path}/${encodeURIComponent(name)}/logs`;
    return output(this.#transport, path, { ...options, follow: options.follow ?? false });
  }

  async #verb(name: string, verb: string, options: CallOptions): Promise<ServiceView> {
    const path = `${this.#path}/${encodeURIComponent(name)}/${verb}`;
    return this.#transport.json({ method: "POST", path, repeatable: verb === "restart" ? "once" : "safe" }, options);
  }
}
