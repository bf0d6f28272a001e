import assert from "node:assert/strict";
import test from "node:test";
import { SseParser } from "slipway-sdk";

const bytes = (text) => new TextEncoder().encode(text);
const message = (id, event, data) => ({ id, event, data });

const table = [
  ["id: 1\nevent: log\ndata: {}\n\n", [message("1", "log", "{}")]],
  ["\ufeffdata: a\r\ndata:b\r\r\nid: 2\n\n", [message("", "message", "a\nb")]],
  [": still here\n\nretry: 1000\n\n", []],
  ["id: 1\ndata\n\nevent: e\n\ndata: over\n\n", [message("1", "message", ""), message("1", "message", "over")]],
  ["id: a\0b\ndata: grüße 🛶\nunknown: x\n\ndata: cut", [message("", "message", "grüße 🛶")]],
  ["data:  two spaces\rid:3\r\rdata: next\n\n", [message("3", "message", " two spaces"), message("3", "message", "next")]],
];

test("a stream is the same wherever it is cut", () => {
  for (const [text, expected] of table) {
    const whole = bytes(text);
    for (let one = 0; one <= whole.length; one++) {
      for (let two = one; two <= whole.length; two++) {
        const parser = new SseParser();
        const parts = [whole.slice(0, one), whole.slice(one, two), whole.slice(two)];
        assert.deepEqual(parts.flatMap((part) => parser.push(part)), expected, `${JSON.stringify(text)} at ${one}, ${two}`);
      }
    }
    const parser = new SseParser();
    assert.deepEqual([...whole].flatMap((byte) => parser.push(Uint8Array.of(byte))), expected, "byte by byte");
  }
});

test("the time to reconnect is read", () => {
  const parser = new SseParser();
  parser.push(bytes("retry: 1500\nretry: soon\n\n"));
  assert.equal(parser.retryMs, 1500);
});
