/** Lists of the API, which come in pages. */

import type { CallOptions } from "./abort.js";
import type { Query, Transport } from "./transport.js";

interface Page<T> {
  items: T[];
  next?: string | null;
}

/** All items of a list, page by page as they are needed: `for await (const item of list)`, or `await list.all()`. */
export class List<T> implements AsyncIterable<T> {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #query: Query;
  readonly #options: CallOptions;

  constructor(transport: Transport, path: string, query: Query = {}, options: CallOptions = {}) {
    this.#transport = transport;
    this.#path = path;
    this.#query = query;
    this.#options = options;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, void> {
    let query = this.#query;
    for (;;) {
      const call = { method: "GET", path: this.#path, query } as const;
      const page = await this.#transport.json<Page<T>>(call, this.#options);
      yield* page.items;
      if (page.next === null || page.next === undefined) return;
      query = { ...query, after: page.next };
    }
  }

  /** Collects all items. */
  async all(): Promise<T[]> {
    const items: T[] = [];
    for await (const item of this) items.push(item);
    return items;
  }
}
