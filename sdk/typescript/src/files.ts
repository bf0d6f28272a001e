/** Files of a sandbox's workspace. None of this wakes the sandbox. */

import type { CallOptions } from "./abort.js";
import { NotFoundError, ProtocolError } from "./errors.js";
import { json } from "./events.js";
import { List } from "./pages.js";
import type {
  FileChangeView,
  FileLinkCreate,
  FileLinkCreated,
  FileLinkView,
  FileView,
  SearchView,
  UnpackView,
  WriteFile,
} from "./schema.js";
import { follow, type StreamPlan } from "./stream.js";
import { OPERATION_TIMEOUT_MS, type Body, type Call, type Query, type Transport } from "./transport.js";

/** Relative to `/home/sandbox`; the app is in `workspace/app`. Bytes for a name that is not UTF-8. */
export type Path = string | Uint8Array;
export type ArchiveFormat = "tar" | "tar.gz" | "zip";

export interface WriteOptions extends CallOptions {
  /** Permissions in octal, as in `0755`. */
  mode?: string | undefined;
  /** Adds to the end. */
  append?: boolean | undefined;
  /** Writes only if the file still has this `etag`. */
  ifMatch?: string | undefined;
  /** Writes only if there is no such file. */
  create?: boolean | undefined;
}

export interface ListOptions extends CallOptions {
  recursive?: boolean | undefined;
  depth?: number | undefined;
  /** Leaves out `.git` and what ignore files name. */
  ignore?: boolean | undefined;
  /** Patterns as in `.gitignore` to leave out. */
  exclude?: readonly string[] | undefined;
}

export interface SearchOptions extends CallOptions {
  /** A glob of the name, or of the path where it has a slash. */
  name?: string | undefined;
  /** A regular expression that a line matches. */
  content?: string | undefined;
  ignoreCase?: boolean | undefined;
  hidden?: boolean | undefined;
  limit?: number | undefined;
  ignore?: boolean | undefined;
  exclude?: readonly string[] | undefined;
}

/** A change below a watched directory. After `overflow` changes are missing: list the tree again. */
export type FileEvent =
  | ({ kind: "created" | "modified" | "deleted" | "moved" } & FileChangeView)
  | { kind: "ready" }
  | { kind: "overflow" };

export class Files {
  readonly #transport: Transport;
  readonly #sandbox: string;

  constructor(transport: Transport, sandbox: string) {
    this.#transport = transport;
    this.#sandbox = sandbox;
  }

  /** The bytes of a file. */
  async read(path: Path, options: CallOptions = {}): Promise<Uint8Array> {
    return this.#transport.bytes(this.#content("GET", path), options);
  }

  /** The text of a file, as UTF-8. */
  async readText(path: Path, options: CallOptions = {}): Promise<string> {
    return new TextDecoder().decode(await this.read(path, options));
  }

  /** The bytes of a file as a stream, for one that does not fit into memory. */
  async readStream(path: Path, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return bodyOf(await this.#transport.open(this.#content("GET", path), options));
  }

  /** Writes a file at once: readers see the old content or the new. Missing directories are made. */
  async write(path: Path, content: Body, options: WriteOptions = {}): Promise<FileView> {
    const { mode, append } = options;
    const headers: Record<string, string> = {};
    if (options.ifMatch !== undefined) headers["If-Match"] = options.ifMatch;
    if (options.create) headers["If-None-Match"] = "*";
    const conditional = append || options.ifMatch !== undefined || options.create;
    return this.#transport.json(
      {
        ...this.#content("PUT", path, { mode, append: append || undefined }),
        body: content,
        headers,
        // Not true any more after it was done.
        repeatable: conditional ? "once" : "safe",
      },
      options,
    );
  }

  /** Writes many files in one call. */
  async writeMany(files: WriteFile[], options: CallOptions = {}): Promise<number> {
    const call = { ...this.#call("POST", "write-many"), json: { files }, repeatable: "safe" } as const;
    const { updated } = await this.#transport.json<{ updated: number }>(call, options);
    return updated;
  }

  /** The entries of a directory. */
  list(path: Path = "", options: ListOptions = {}): List<FileView> {
    const { recursive, depth, ignore, exclude } = options;
    return new List(this.#transport, `${this.#sandbox}/files`, { path, recursive, depth, ignore, exclude }, options);
  }

  /** Returns one entry; with `follow` the target of a link. */
  async stat(path: Path, options: CallOptions & { follow?: boolean } = {}): Promise<FileView> {
    return this.#transport.json(this.#call("GET", "stat", { path, follow: options.follow }), options);
  }

  async exists(path: Path, options: CallOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options);
      return true;
    } catch (error) {
      // Without `missing` it is the file; with it the sandbox.
      if (error instanceof NotFoundError && !error.detail.missing) return false;
      throw error;
    }
  }

  /** Makes a directory, and those above it. */
  async mkdir(path: Path, options: CallOptions & { mode?: string } = {}): Promise<FileView> {
    const call = this.#call("POST", "mkdir", { path, mode: options.mode });
    return this.#transport.json({ ...call, repeatable: "safe" }, options);
  }

  async move(from: Path, to: Path, options: CallOptions & { overwrite?: boolean } = {}): Promise<FileView> {
    return this.#transport.json(this.#call("POST", "move", { from, to, overwrite: options.overwrite }), options);
  }

  async copy(from: Path, to: Path, options: CallOptions & { overwrite?: boolean } = {}): Promise<FileView> {
    return this.#transport.json(this.#call("POST", "copy", { from, to, overwrite: options.overwrite }), options);
  }

  /** Deletes a file, or with `recursive` a directory and what is in it. */
  async remove(
    path: Path,
    options: CallOptions & { recursive?: boolean; ifMatch?: string } = {},
  ): Promise<void> {
    const headers = options.ifMatch === undefined ? undefined : { "If-Match": options.ifMatch };
    const call = this.#content("DELETE", path, { recursive: options.recursive });
    await this.#transport.done({ ...call, headers }, options);
  }

  /** Finds files by name, by content, or by both. */
  async search(path: Path, options: SearchOptions): Promise<SearchView> {
    const { name, content, ignoreCase, hidden, limit, ignore, exclude } = options;
    const query = { path, name, content, ignore_case: ignoreCase, hidden, limit, ignore, exclude };
    return this.#transport.json(this.#call("GET", "search", query), options);
  }

  /** Changes below a directory. A watch that is cut continues where it was, or says `overflow`. */
  watch(path: Path = "", options: CallOptions & { recursive?: boolean } = {}): AsyncGenerator<FileEvent, void, void> {
    const plan: StreamPlan<FileEvent> = {
      path: `${this.#sandbox}/files/watch`,
      resume: (id) => ({
        query: { path, recursive: options.recursive },
        ...(id === null ? {} : { headers: { "Last-Event-ID": id } }),
      }),
      read: (message) => ({ ...json<object>(message), kind: message.event }) as FileEvent,
      seen: (id, last) => id === last,
      last: () => false,
    };
    return follow(this.#transport, plan, options);
  }

  /** A directory as an archive. */
  async archive(
    path: Path = "",
    options: CallOptions & { format?: ArchiveFormat; ignore?: boolean; exclude?: readonly string[] } = {},
  ): Promise<ReadableStream<Uint8Array>> {
    const { format, ignore, exclude } = options;
    return bodyOf(await this.#transport.open(this.#call("GET", "archive", { path, format, ignore, exclude }), options));
  }

  /** Unpacks an archive into a directory. */
  async unpack(
    path: Path,
    archive: Body,
    options: CallOptions & { format?: ArchiveFormat } = {},
  ): Promise<UnpackView> {
    const call = this.#call("PUT", "archive", { path, format: options.format });
    return this.#transport.json({ ...call, body: archive, defaultTimeoutMs: OPERATION_TIMEOUT_MS }, options);
  }

  /** A URL that reads or writes one file without a token. */
  async link(link: FileLinkCreate, options: CallOptions = {}): Promise<FileLinkCreated> {
    return this.#transport.json({ method: "POST", path: `${this.#sandbox}/file-links`, json: link }, options);
  }

  links(options: CallOptions = {}): List<FileLinkView> {
    return new List(this.#transport, `${this.#sandbox}/file-links`, {}, options);
  }

  async revokeLink(id: string, options: CallOptions = {}): Promise<void> {
    const path = `${this.#sandbox}/file-links/${encodeURIComponent(id)}`;
    await this.#transport.done({ method: "DELETE", path }, options);
  }

  #content(method: Call["method"], path: Path, query: Query = {}): Call {
    return this.#call(method, "content", { path, ...query });
  }

  #call(method: Call["method"], verb: string, query: Query = {}): Call {
    const accept = verb === "content" || verb === "archive" ? { Accept: "*/*" } : undefined;
    return { method, path: `${this.#sandbox}/files/${verb}`, query, headers: accept };
  }
}

/** The body of a response. */
export function bodyOf(response: Response): ReadableStream<Uint8Array> {
  if (!response.body) throw new ProtocolError("the response has no content");
  return response.body;
}
