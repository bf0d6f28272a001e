/** Parses server-sent events. Pure: bytes go in, however they are cut, and messages come out. */

/** A message of the stream. */
export interface SseMessage {
  /** The last `id` seen, also one of an earlier message; empty before the first. */
  id: string;
  /** `message` where the stream does not say. */
  event: string;
  data: string;
}

/** A line is at most this long: a stream that never ends one is not of Slipway. */
export const LINE_MAX_BYTES = 64 * 1024 * 1024;

/** Keeps what of the stream is not whole yet. */
export class SseParser {
  /** Time in milliseconds after which the server wants clients to reconnect, where it says so. */
  retryMs: number | null = null;
  #line: Uint8Array[] = [];
  #lineBytes = 0;
  /** A carriage return ended the last line: a line feed after it is part of the same end. */
  #afterReturn = false;
  #first = true;
  #id = "";
  #event = "";
  #data: string[] = [];

  /** Returns the messages that these bytes complete. */
  push(bytes: Uint8Array): SseMessage[] {
    const messages: SseMessage[] = [];
    let start = 0;
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at];
      if (byte === 10 && this.#afterReturn && at === start) {
        this.#afterReturn = false;
        start = at + 1;
        continue;
      }
      if (byte !== 10 && byte !== 13) continue;
      this.#keep(bytes.subarray(start, at));
      this.#afterReturn = byte === 13;
      start = at + 1;
      const message = this.#endLine();
      if (message) messages.push(message);
    }
    if (start < bytes.length) {
      this.#afterReturn = false;
      // The caller may use its buffer again.
      this.#keep(bytes.slice(start));
    }
    return messages;
  }

  #keep(part: Uint8Array): void {
    this.#lineBytes += part.length;
    if (this.#lineBytes > LINE_MAX_BYTES) throw new RangeError("a line of the event stream is too long");
    this.#line.push(part);
  }

  #endLine(): SseMessage | null {
    let text = decode(this.#line, this.#lineBytes);
    this.#line = [];
    this.#lineBytes = 0;
    if (this.#first) {
      this.#first = false;
      if (text.startsWith("\ufeff")) text = text.slice(1);
    }
    if (text === "") return this.#endMessage();
    const colon = text.indexOf(":");
    if (colon === 0) return null;
    const field = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(text[colon + 1] === " " ? colon + 2 : colon + 1);
    this.#field(field, value);
    return null;
  }

  #field(name: string, value: string): void {
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "retry" && /^[0-9]+$/.test(value)) this.retryMs = Number(value);
  }

  /** Returns the message, or nothing where the stream has no data for one. */
  #endMessage(): SseMessage | null {
    const [data, event] = [this.#data, this.#event];
    this.#data = [];
    this.#event = "";
    if (data.length === 0) return null;
    return { id: this.#id, event: event === "" ? "message" : event, data: data.join("\n") };
  }
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

function decode(parts: Uint8Array[], bytes: number): string {
  if (parts.length === 1 && parts[0]) return utf8.decode(parts[0]);
  const whole = new Uint8Array(bytes);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return utf8.decode(whole);
}
