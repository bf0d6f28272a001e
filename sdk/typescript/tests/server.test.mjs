// The client against servers that misbehave. Each test has a server of its own, on loopback.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import test from "node:test";
import { AuthenticationError, DeadlineExceededError, Slipway, TransportError } from "slipway-sdk";

const quick = { retry: { baseMs: 1, maxMs: 5 } };
const sandbox = { id: "01jb9xyzabcdefghjkmnpqrstv", name: "x" };
const event = (seq) => `id: ${seq}\nevent: message\ndata: ${JSON.stringify({ seq, kind: "message", text: String(seq) })}\n\n`;

/** Serves requests one after the other by these functions; the last one serves all further ones. */
async function serve(t, ...answers) {
  const requests = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    requests.push({ method: request.method, url: request.url, headers: request.headers, body });
    const answer = answers[Math.min(requests.length, answers.length) - 1];
    answer(response, request);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, requests, server };
}

const json = (status, body, headers = {}) => (response) => {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
};
const error = (status, code, retryable, headers) => json(status, { error: { code, message: code, retryable } }, headers);
const cut = (response) => response.socket.destroy();
const stream = (text, end) => (response) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(text);
  if (end === "cut") setImmediate(() => response.socket.destroy());
  else if (end === "end") response.end();
};

test("a create is repeated with the same key, whatever becomes of its answer", async (t) => {
  const { url, requests } = await serve(t, error(503, "driver_unavailable", true), cut, error(429, "too_many", true, { "retry-after": "0" }), json(201, sandbox));
  const created = await new Slipway(url, "slw_token", quick).sandboxes.create({ name: "x" });
  assert.equal(created.id, sandbox.id);
  const keys = new Set(requests.map((request) => request.headers["idempotency-key"]));
  assert.equal(requests.length, 4);
  assert.ok(keys.size === 1 && /^[0-9a-f]{32}$/.test([...keys][0]), [...keys].join());
  assert.equal(new Set(requests.map((request) => request.body)).size, 1);
  assert.equal(requests[0].headers.authorization, "Bearer slw_token");
});

test("a command that was sent is not sent under another id", async (t) => {
  const ended = { id: "x", state: "ended", exit: { kind: "exited", code: 0 }, stdout: "a", truncated: false, hints: [] };
  const { url, requests } = await serve(t, json(200, sandbox), cut, json(200, ended));
  const found = await new Slipway(url, "t", quick).sandboxes.get(sandbox.id);
  assert.equal((await found.run("echo a")).stdout, "a");
  const ids = requests.slice(1).map((request) => JSON.parse(request.body).id);
  assert.ok(ids.length === 2 && ids[0] === ids[1]);
});

test("what must not happen twice is not repeated after a cut", async (t) => {
  const { url, requests } = await serve(t, json(200, sandbox), cut);
  const found = await new Slipway(url, "t", quick).sandboxes.get(sandbox.id);
  await assert.rejects(found.attachExec("e").signal("INT"), TransportError);
  await assert.rejects(found.files.move("a", "b"), TransportError);
  assert.equal(requests.length, 3);
});

test("a server that is not there yet is waited for", async (t) => {
  const { url, server } = await serve(t, json(200, sandbox));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  const client = new Slipway(url, "t", { retry: { baseMs: 20, maxMs: 20, retries: 100_000 } });
  const waiting = client.sandboxes.get(sandbox.id);
  server.listen(port, "127.0.0.1");
  assert.equal((await waiting).id, sandbox.id);
});

test("an error that is final is told at once, and never with the token", async (t) => {
  const { url, requests } = await serve(t, error(401, "unauthorized", false));
  const failed = await new Slipway(url, "slw_secret", quick).quota().catch((error) => error);
  assert.ok(failed instanceof AuthenticationError && failed.code === "unauthorized" && requests.length === 1);
  assert.ok(!`${failed.stack} ${JSON.stringify(failed)}`.includes("slw_secret"));
});

test("a redirect is not followed with the token", async (t) => {
  const other = await serve(t, json(200, {}));
  const { url } = await serve(t, (response) => response.writeHead(307, { location: `${other.url}/v1/quota` }).end());
  await assert.rejects(new Slipway(url, "t", { retry: { retries: 0 } }).quota());
  assert.equal(other.requests.length, 0);
});

test("a stream that is cut or ended goes on where it was, without a duplicate", async (t) => {
  const { url, requests } = await serve(
    t,
    stream("retry: 1\n\n" + event(1) + event(2) + event(3).slice(0, 20), "cut"),
    stream(event(2) + event(3), "end"),
    error(503, "shutting_down", true),
    stream(": still here\n\n" + event(4), "cut"),
    stream(event(5)),
  );
  const client = new Slipway(url, "t");
  const seqs = [];
  for await (const { seq } of client.events()) {
    seqs.push(seq);
    if (seq === 5) break;
  }
  assert.deepEqual(seqs, [1, 2, 3, 4, 5]);
  assert.deepEqual(requests.map((request) => request.headers["last-event-id"]), [undefined, "2", "3", "3", "4"]);
});

test("a dead stream is noticed by its silence alone, and not while the consumer takes its time", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const silenceMs = 1_000;
  const connections = [];
  const fetch = async (_, { headers, signal }) => {
    const body = new ReadableStream({
      start(controller) {
        signal.addEventListener("abort", () => controller.error(signal.reason));
        connections.push({ headers, send: (text) => controller.enqueue(new TextEncoder().encode(text)) });
      },
    });
    return new Response(body);
  };
  // What was sent is read before time goes on.
  const settled = async () => {
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  };
  const pass = async (ms) => {
    await settled();
    t.mock.timers.tick(ms);
    await settled();
  };
  const events = new Slipway("http://127.0.0.1:1", "t", { fetch, silenceMs }).events();
  const one = events.next();
  await settled();
  connections[0].send(event(1));
  assert.equal((await one).value.seq, 1);
  // The consumer is busy.
  await pass(10 * silenceMs);
  const two = events.next();
  for (let beat = 0; beat < 5; beat++) {
    await pass(silenceMs - 1);
    connections[0].send(": still here\n\n");
  }
  await pass(silenceMs - 1);
  assert.equal(connections.length, 1, "a heartbeat is a sign of life");
  await pass(1);
  // The pause before it is opened again.
  await pass(5_000);
  assert.equal(connections.length, 2, "silence is not");
  assert.equal(connections[1].headers["Last-Event-ID"], "1");
  connections[1].send(event(1) + event(2));
  assert.equal((await two).value.seq, 2);
  await events.return();
});

test("204 ends a stream, and an error that is final fails it", async (t) => {
  const { url } = await serve(t, stream(event(1), "end"), (response) => response.writeHead(204).end(), error(404, "not_found", false));
  const client = new Slipway(url, "t", {});
  const seqs = [];
  for await (const { seq } of client.events()) seqs.push(seq);
  assert.deepEqual(seqs, [1]);
  await assert.rejects(client.events().next(), { code: "not_found" });
});

test("a stream that never comes back fails after the outage", async (t) => {
  const { url } = await serve(t, stream(event(1), "cut"), cut);
  const seqs = [];
  const following = async () => {
    for await (const { seq } of new Slipway(url, "t", { outageMs: 200 }).events()) seqs.push(seq);
  };
  await assert.rejects(following(), TransportError);
  assert.deepEqual(seqs, [1]);
});

test("a call ends when its time is up, and when its caller gives up", async (t) => {
  const { url } = await serve(t, () => undefined);
  const client = new Slipway(url, "t");
  await assert.rejects(client.quota({ timeoutMs: 50 }), DeadlineExceededError);
  const leaving = new AbortController();
  const call = client.quota({ signal: leaving.signal });
  leaving.abort(new Error("enough"));
  await assert.rejects(call, /enough/);
});
