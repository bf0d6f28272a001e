"""Both clients against servers that misbehave. Each test has a server of its own, on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
import unittest
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from slipway import (
    AsyncSlipway,
    AuthenticationError,
    DeadlineExceededError,
    NotFoundError,
    RetryPolicy,
    SlipwayError,
    Slipway,
    TransportError,
)

QUICK = RetryPolicy(base_s=0.001, max_s=0.005)
SANDBOX = {"id": "01jb9xyzabcdefghjkmnpqrstv", "name": "x"}
Answer = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """Serves requests one after the other by these functions; the last one serves all further ones."""

    def __init__(self, *answers: Answer) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.ended = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.requests.append((self.path, headers, body))
                answers[min(len(outer.requests), len(answers)) - 1](self)

            do_GET = do_POST = do_DELETE = serve

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        # A client may leave at any time.
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def reply(status: int, body: Any, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        text = json.dumps(body).encode()
        handler.send_response(status)
        for name, value in {"content-length": str(len(text)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(text)

    return answer


def error(status: int, code: str, retryable: bool, **headers: str) -> Answer:
    return reply(status, {"error": {"code": code, "message": code, "retryable": retryable}}, **headers)


def cut(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


def event(seq: int) -> bytes:
    data = json.dumps({"seq": seq, "kind": "message", "text": str(seq)})
    return f"id: {seq}\nevent: message\ndata: {data}\n\n".encode()


def stream(text: bytes) -> Answer:
    """Sends this and closes the connection, as a server that dies."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        handler.close_connection = True

    return answer


class Servers(unittest.TestCase):
    def both(self, server: Server, use: Callable[[Slipway], Any], same: Callable[[AsyncSlipway], Any], **options: Any) -> list[Any]:
        """What each client does with a server; an error of the package is a value."""
        found: list[Any] = []
        with Slipway(server.url, "slw_secret", **options) as client:
            try:
                found.append(use(client))
            except SlipwayError as failed:
                found.append(failed)

        async def run() -> Any:
            async with AsyncSlipway(server.url, "slw_secret", **options) as client:
                return await same(client)

        try:
            found.append(asyncio.run(run()))
        except SlipwayError as failed:
            found.append(failed)
        return found

    def test_a_create_is_repeated_with_the_same_key_whatever_becomes_of_its_answer(self) -> None:
        answers = (error(503, "driver_unavailable", True), cut, error(429, "too_many", True, retry_after="0"), reply(201, SANDBOX))
        with Server(*answers, *answers) as server:
            found = self.both(server, lambda c: c.sandboxes.create(name="x").id, create, retry=QUICK)
            self.assertEqual(found, [SANDBOX["id"]] * 2)
        for requests in (server.requests[:4], server.requests[4:]):
            self.assertEqual(len(requests), 4)
            self.assertEqual(len({headers["idempotency-key"] for _, headers, _ in requests}), 1)
            self.assertEqual({headers["authorization"] for _, headers, _ in requests}, {"Bearer slw_secret"})
            self.assertEqual(len({body for _, _, body in requests}), 1)
        self.assertNotEqual(server.requests[0][1]["idempotency-key"], server.requests[4][1]["idempotency-key"])

    def test_what_must_not_happen_twice_is_not_repeated_after_a_cut(self) -> None:
        path = f"/v1/sandboxes/{SANDBOX['id']}/files/move"
        with Server(cut) as server:
            found = self.both(
                server, lambda c: c.request("POST", path), lambda c: c.request("POST", path), retry=QUICK
            )
            self.assertTrue(all(isinstance(each, TransportError) for each in found), found)
            self.assertEqual(len(server.requests), 2)

    def test_an_error_that_is_final_is_told_at_once_and_never_with_the_token(self) -> None:
        with Server(error(401, "unauthorized", False)) as server:
            found = self.both(server, lambda c: c.quota(), lambda c: c.quota(), retry=QUICK)
            self.assertEqual(len(server.requests), 2)
        for failed in found:
            self.assertIsInstance(failed, AuthenticationError)
            self.assertNotIn("slw_secret", f"{failed!r} {vars(failed)}")

    def test_a_redirect_is_not_followed_with_the_token(self) -> None:
        with Server(reply(200, {})) as other, Server(reply(307, {}, location=other.url + "/v1/quota")) as server:
            found = self.both(server, lambda c: c.quota(), lambda c: c.quota(), retry=RetryPolicy(retries=0))
            self.assertTrue(all(isinstance(each, SlipwayError) for each in found), found)
            self.assertEqual(other.requests, [])

    def test_a_stream_that_is_cut_goes_on_where_it_was_without_a_duplicate(self) -> None:
        answers = (
            stream(b"retry: 1\n\n" + event(1) + event(2) + event(3)[:20]),
            stream(event(2) + event(3)),
            error(503, "shutting_down", True),
            stream(b": still here\n\n" + event(4)),
            reply(204, None),
        )
        with Server(*answers, *answers) as server:
            found = self.both(server, lambda c: [each["seq"] for each in c.events()], seqs)
            self.assertEqual(found, [[1, 2, 3, 4]] * 2)
        ids = [headers.get("last-event-id") for _, headers, _ in server.requests]
        self.assertEqual(ids, [None, "2", "3", "3", "4"] * 2)

    def test_a_dead_stream_is_noticed_by_its_silence(self) -> None:
        def silent(handler: BaseHTTPRequestHandler) -> None:
            """Sends the event after the last one seen, and nothing more; after the third one, that is all."""
            last = int(handler.headers.get("last-event-id") or 0)
            if last == 3:
                return reply(204, None)(handler)
            handler.send_response(200)
            handler.send_header("content-type", "text/event-stream")
            handler.end_headers()
            handler.wfile.write(event(last + 1))
            handler.wfile.flush()
            server.ended.wait()
            return None

        with Server(silent) as server:
            found = self.both(server, lambda c: [each["seq"] for each in c.events()], seqs, silence_s=0.2)
            self.assertEqual(found, [[1, 2, 3]] * 2)

    def test_an_error_that_is_final_fails_a_stream(self) -> None:
        with Server(error(404, "not_found", False)) as server:
            found = self.both(server, lambda c: [each["seq"] for each in c.events()], seqs)
            self.assertTrue(all(isinstance(each, NotFoundError) for each in found), found)

    def test_a_stream_that_never_comes_back_fails_after_the_outage(self) -> None:
        with Server(cut) as server:
            found = self.both(server, lambda c: [each["seq"] for each in c.events()], seqs, outage_s=0.2)
            self.assertTrue(all(isinstance(each, TransportError) for each in found), found)

    def test_a_call_ends_when_its_time_is_up(self) -> None:
        with Server(lambda _: server.ended.wait() and None) as server:
            found = self.both(server, lambda c: c.quota(call_timeout_s=0.05), lambda c: c.quota(call_timeout_s=0.05))
            self.assertTrue(all(isinstance(each, DeadlineExceededError) for each in found), found)

    def test_a_command_that_is_cancelled_is_ended(self) -> None:
        cancelled = threading.Event()

        def answer(handler: BaseHTTPRequestHandler) -> None:
            if handler.path.endswith("/cancel"):
                cancelled.set()
                return reply(200, None)(handler)
            if handler.path.endswith("/execs"):
                started.set()
                server.ended.wait()
                return None
            return reply(200, SANDBOX)(handler)

        async def run() -> None:
            async with AsyncSlipway(server.url, "t") as client:
                sandbox = await client.sandboxes.get(SANDBOX["id"])
                running = asyncio.create_task(sandbox.run("sleep 600"))
                await asyncio.to_thread(started.wait)
                running.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await running

        started = threading.Event()
        with Server(answer) as server:
            asyncio.run(run())
            self.assertTrue(cancelled.is_set())


async def create(client: AsyncSlipway) -> str:
    return (await client.sandboxes.create(name="x")).id


async def seqs(client: AsyncSlipway) -> list[int]:
    return [each["seq"] async for each in client.events()]
