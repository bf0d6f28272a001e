/** Output of commands and services: bytes with their position, as a stream that resumes. */

import type { CallOptions } from "./abort.js";
import { json } from "./events.js";
import type { Chunk, Stream } from "./schema.js";
import { follow, type StreamPlan } from "./stream.js";
import type { Transport } from "./transport.js";

/** A part of the output. */
export interface Output {
  /** Where it was printed; null for a gap. */
  stream: Stream | null;
  data: Uint8Array;
  /** The position after it, over all streams: `after` continues there. */
  cursor: number;
  /** Bytes that are lost before this position, because the disk was full or old output was trimmed. Mostly 0. */
  lost: number;
}

export interface OutputOptions extends CallOptions {
  /** Continues after this `cursor`. Default: the beginning of what is kept. */
  after?: number | undefined;
  /** Only this stream. */
  stream?: "stdout" | "stderr" | undefined;
  /** Whether more is waited for, until the command has ended. Default: true. */
  follow?: boolean | undefined;
  /** Whether a sleeping sandbox is woken to read it. Default: true. */
  wake?: boolean | undefined;
}

/** Follows output to its end: every byte once, in order, however often the connection is cut. */
export async function* output(
  transport: Transport,
  path: string,
  options: OutputOptions = {},
): AsyncGenerator<Output, void, void> {
  const following = options.follow ?? true;
  const plan: StreamPlan<Chunk> = {
    path,
    from: options.after === undefined ? null : String(options.after),
    resume: (id) => ({
      query: {
        after: id ?? undefined,
        stream: options.stream,
        follow: following ? 1 : undefined,
        wake: options.wake === false ? 0 : undefined,
      },
    }),
    read: (message) => json<Chunk>(message),
    // The end has the position of what came before it.
    seen: (id, last) => Number(id) < Number(last),
    last: (message) => message.event === "end" && (!following || json<{ ended: boolean }>(message).ended),
  };
  let position = options.after ?? -1;
  for await (const chunk of follow(transport, plan, options)) {
    if (chunk.type === "end" || chunk.cursor <= position) continue;
    position = chunk.cursor;
    if (chunk.type === "gap") {
      yield { stream: null, data: new Uint8Array(0), cursor: chunk.cursor, lost: chunk.lost };
    } else {
      yield { stream: chunk.stream, data: decode(chunk.data, chunk.encoding), cursor: chunk.cursor, lost: 0 };
    }
  }
}

const utf8 = new TextEncoder();

/** The bytes of text that is base64 where it was not UTF-8. */
export function decode(text: string, encoding: string | null | undefined): Uint8Array {
  if (encoding !== "base64") return utf8.encode(text);
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
