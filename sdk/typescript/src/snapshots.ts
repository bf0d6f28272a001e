/** Snapshots of the files of a sandbox. */

import type { CallOptions } from "./abort.js";
import { bodyOf } from "./files.js";
import { List } from "./pages.js";
import { Sandbox, type WaitOptions } from "./sandbox.js";
import type {
  SandboxView,
  SnapshotCreate,
  SnapshotFork,
  SnapshotVerification,
  SnapshotView,
} from "./schema.js";
import { OPERATION_TIMEOUT_MS, type Body, type Transport } from "./transport.js";

const PATH = "/v1/snapshots";

/** A saved copy of the files of a sandbox. */
export class Snapshot {
  readonly id: string;
  /** As it was when it was last asked for. */
  view: SnapshotView;
  readonly #transport: Transport;

  constructor(transport: Transport, view: SnapshotView) {
    this.#transport = transport;
    this.id = view.id;
    this.view = view;
  }

  async refresh(options: CallOptions = {}): Promise<SnapshotView> {
    this.view = await this.#transport.json({ method: "GET", path: this.#path() }, options);
    return this.view;
  }

  /** Makes the files of a sandbox those of this snapshot again. Default: the sandbox that it was taken of. */
  async restore(options: CallOptions & { sandbox?: string } = {}): Promise<Sandbox> {
    const json = { sandbox: options.sandbox };
    const call = { method: "POST", path: this.#path("/restore"), json } as const;
    const limit = { defaultTimeoutMs: OPERATION_TIMEOUT_MS };
    return new Sandbox(this.#transport, await this.#transport.json<SandboxView>({ ...call, ...limit }, options));
  }

  /** Makes another sandbox with these files. */
  async fork(spec: SnapshotFork = {}, options: WaitOptions = {}): Promise<Sandbox> {
    const call = { method: "POST", path: this.#path("/fork"), query: { wait: options.wait }, json: spec } as const;
    const rest = { creates: true, defaultTimeoutMs: OPERATION_TIMEOUT_MS };
    return new Sandbox(this.#transport, await this.#transport.json<SandboxView>({ ...call, ...rest }, options));
  }

  /** Reads every file and compares its hash. */
  async verify(options: CallOptions = {}): Promise<SnapshotVerification> {
    const call = { method: "POST", path: this.#path("/verify"), repeatable: "safe" } as const;
    return this.#transport.json({ ...call, defaultTimeoutMs: OPERATION_TIMEOUT_MS }, options);
  }

  /** An archive of it, for another host: tar, compressed with zstd. */
  async archive(options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const call = { method: "GET", path: this.#path("/archive"), headers: { Accept: "*/*" } } as const;
    return bodyOf(await this.#transport.open({ ...call, defaultTimeoutMs: OPERATION_TIMEOUT_MS }, options));
  }

  async delete(options: CallOptions = {}): Promise<void> {
    await this.#transport.done({ method: "DELETE", path: this.#path() }, options);
  }

  #path(verb = ""): string {
    return `${PATH}/${encodeURIComponent(this.id)}${verb}`;
  }
}

/** All snapshots that the caller may see. */
export class Snapshots {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  async get(id: string, options: CallOptions = {}): Promise<Snapshot> {
    const path = `${PATH}/${encodeURIComponent(id)}`;
    return new Snapshot(this.#transport, await this.#transport.json<SnapshotView>({ method: "GET", path }, options));
  }

  list(options: CallOptions & { sandbox?: string } = {}): List<SnapshotView> {
    return new List(this.#transport, PATH, { sandbox: options.sandbox }, options);
  }

  /** Imports an archive of another host. */
  async import(archive: Body, options: CallOptions & { name?: string } = {}): Promise<Snapshot> {
    const call = { method: "POST", path: PATH, query: { name: options.name }, body: archive } as const;
    const limit = { defaultTimeoutMs: OPERATION_TIMEOUT_MS };
    return new Snapshot(this.#transport, await this.#transport.json<SnapshotView>({ ...call, ...limit }, options));
  }
}

/** Snapshots of one sandbox. */
export class SandboxSnapshots {
  readonly #transport: Transport;
  readonly #id: string;

  constructor(transport: Transport, id: string) {
    this.#transport = transport;
    this.#id = id;
  }

  /** Takes one, whether the sandbox runs or not. One with a name is kept until it is deleted. */
  async create(spec: SnapshotCreate = {}, options: CallOptions = {}): Promise<Snapshot> {
    const path = `/v1/sandboxes/${this.#id}/snapshots`;
    const call = { method: "POST", path, json: spec, creates: true } as const;
    const limit = { defaultTimeoutMs: OPERATION_TIMEOUT_MS };
    return new Snapshot(this.#transport, await this.#transport.json<SnapshotView>({ ...call, ...limit }, options));
  }

  list(options: CallOptions = {}): List<SnapshotView> {
    return new Snapshots(this.#transport).list({ ...options, sandbox: this.#id });
  }
}
