import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { ApiError, TransportError, FAMILIES, errorOf, parseRetryAfter } from "slipway-sdk";
import { DEFAULT_RETRIES, backoff, pauseBefore } from "../dist/retry.js";

const policy = { ...DEFAULT_RETRIES, retries: 2, baseMs: 100, maxMs: 150 };
const answer = (status, code, retryable, headers = {}) =>
  errorOf({ status, headers: new Headers(headers) }, JSON.stringify({ error: { code, message: "no", retryable } }));
const call = (repeatable, repeated = 0) => ({ repeatable, repeated, random: 1 });

test("a call is repeated where that is safe, and no more often than the policy says", () => {
  const refused = new TransportError("no", Object.assign(new Error(), { code: "ECONNREFUSED" }));
  for (const [error, how, pause] of [
    [answer(503, "waking", true), call("once"), 100],
    [answer(503, "waking", true), call("safe", 1), 150],
    [answer(503, "waking", true), call("safe", 2), null],
    [answer(504, "timed_out", true), call("safe"), 100],
    [answer(504, "timed_out", true), call("once"), null],
    [answer(500, "internal", false), call("safe"), null],
    [answer(429, "too_many", true, { "retry-after": "3" }), call("once"), 3000],
    [answer(429, "too_many", true, { "retry-after": "3600" }), call("safe"), null],
    [new TransportError("cut"), call("safe"), 100],
    [new TransportError("cut"), call("once"), null],
    [refused, call("once"), 100],
  ]) {
    assert.equal(pauseBefore(error, how, policy), pause, `${error.code ?? error.message} ${JSON.stringify(how)}`);
  }
});

test("half of a pause is chance, and it grows to a limit", () => {
  assert.deepEqual([0, 1, 2, 60].map((repeated) => backoff(repeated, 0, policy)), [50, 75, 75, 75]);
  assert.deepEqual([0, 1, 2, 60].map((repeated) => backoff(repeated, 1, policy)), [100, 150, 150, 150]);
});

test("Retry-After is seconds or a date", () => {
  const now = Date.UTC(2026, 0, 1);
  for (const [header, ms] of [["2", 2000], ["Thu, 01 Jan 2026 00:00:05 GMT", 5000], ["Wed, 31 Dec 2025 00:00:00 GMT", 0], ["soon", null], [null, null]]) {
    assert.equal(parseRetryAfter(header, now), ms, String(header));
  }
});

test("every code of the API's document has a class", () => {
  const { components } = JSON.parse(readFileSync(new URL("../openapi.json", import.meta.url), "utf8"));
  const schema = components.schemas.ApiErrorCode;
  const codes = schema.enum ?? schema.oneOf.flatMap((each) => each.enum ?? [each.const]);
  assert.deepEqual(Object.keys(FAMILIES).sort(), [...codes].sort());
});

test("an answer of another program is an error too", () => {
  const error = errorOf({ status: 502, headers: new Headers() }, "<html>Bad gateway</html>");
  assert.ok(error instanceof ApiError && error.retryable && error.code === "internal" && error.status === 502);
  assert.equal(answer(404, "a_newer_code", false).code, "a_newer_code");
});
