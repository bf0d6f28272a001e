/** Addresses of the apps in a sandbox. */

import type { CallOptions } from "./abort.js";
import { SlipwayError } from "./errors.js";
import { List } from "./pages.js";
import type { PortView, PreviewLinkCreate, PreviewLinkCreated, PreviewLinkView, SandboxView } from "./schema.js";
import type { Transport } from "./transport.js";

export class Previews {
  readonly #transport: Transport;
  readonly #sandbox: string;

  constructor(transport: Transport, sandbox: string) {
    this.#transport = transport;
    this.#sandbox = sandbox;
  }

  /** The address of a port: one of the sandbox's spec, or one that something listens on now. */
  async url(port: number, options: CallOptions = {}): Promise<string> {
    const view = await this.#transport.json<SandboxView>({ method: "GET", path: this.#sandbox }, options);
    const known = view.previews?.[String(port)];
    if (known !== undefined) return known;
    for await (const each of this.ports(options)) {
      if (each.port === port && each.preview) return each.preview;
    }
    throw new SlipwayError(`nothing listens on port ${port}, and it is not in the spec of the sandbox`);
  }

  /** Ports that something listens on. */
  ports(options: CallOptions = {}): List<PortView> {
    return new List(this.#transport, `${this.#sandbox}/ports`, {}, options);
  }

  /** A link for a browser to a private preview. Only this answer has its pass. */
  async link(link: PreviewLinkCreate, options: CallOptions = {}): Promise<PreviewLinkCreated> {
    return this.#transport.json({ method: "POST", path: `${this.#sandbox}/preview-links`, json: link }, options);
  }

  links(options: CallOptions = {}): List<PreviewLinkView> {
    return new List(this.#transport, `${this.#sandbox}/preview-links`, {}, options);
  }

  async revokeLink(id: string, options: CallOptions = {}): Promise<void> {
    const path = `${this.#sandbox}/preview-links/${encodeURIComponent(id)}`;
    await this.#transport.done({ method: "DELETE", path }, options);
  }
}
