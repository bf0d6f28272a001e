"""Streams of server-sent events that outlive their connections. A stream that is cut, or that sends no byte for too
# Generated from the file of this name in _async by generate.py.
long, is opened again after the last message seen; messages that come twice are dropped."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx

from .._concurrency import sleep
from .._result import Output, decode, parse
from .._retry import backoff
from .._sse import SseMessage, SseParser
from ..errors import ApiError, SlipwayError, TransportError
from ..types import Chunk
from .transport import CONNECT_S, Transport, Call, failed

FIRST_PAUSE_S = 0.1
PAUSE_MAX_S = 5.0


@dataclass
class StreamPlan:
    """How a stream is opened and read."""

    #: The request that continues after the message with this id; None for the beginning.
    resume: Callable[[str | None], Call]
    #: Whether the id is not after the other one, so that the message was seen already.
    seen: Callable[[str, str], bool]
    #: Whether nothing follows this message.
    last: Callable[[SseMessage], bool]
    #: The id to begin after.
    start: str | None = None


def follow(transport: Transport, plan: StreamPlan) -> Iterator[SseMessage]:
    """Follows a stream to its end."""
    last_id, failures = plan.start, 0
    outage_since: float | None = None
    while True:
        pause = 0.0
        try:
            response = _open(transport, plan.resume(last_id))
            if response.status_code == 204:
                response.close()
                return
            parser = SseParser()
            try:
                for piece in response.iter_raw():
                    outage_since = None
                    for message in parser.push(piece):
                        failures = 0
                        if message.id:
                            if last_id is not None and plan.seen(message.id, last_id):
                                continue
                            last_id = message.id
                        yield message
                        if plan.last(message):
                            return
            finally:
                response.close()
        except httpx.TransportError as error:
            outage_since = outage_since or time.monotonic()
            if time.monotonic() - outage_since > transport.outage_s:
                raise TransportError(f"the stream was cut off: {error}") from error
        except SlipwayError as error:
            outage_since = outage_since or time.monotonic()
            if not error.retryable or time.monotonic() - outage_since > transport.outage_s:
                raise
            pause = (error.retry_after_s or 0.0) if isinstance(error, ApiError) else 0.0
        sleep(max(pause, backoff(failures, random.random(), FIRST_PAUSE_S, PAUSE_MAX_S)))
        failures += 1


def _open(transport: Transport, call: Call) -> httpx.Response:
    call.headers = {**call.headers, "Accept": "text/event-stream", "Accept-Encoding": "identity"}
    # hostd sends a byte every 15 seconds: a stream that is silent for longer is dead.
    timeout = httpx.Timeout(transport.silence_s, connect=min(CONNECT_S, transport.silence_s))
    response = transport.send(call, timeout)
    if not response.is_success:
        raise failed(response)
    return response


def events(
    transport: Transport,
    path: str,
    query: dict[str, Any],
    since: int | None,
    kind: str | list[str] | None,
    last: Callable[[SseMessage], bool] = lambda _: False,
) -> Iterator[Any]:
    """Events of the API: in order, without gaps and without duplicates, however often the connection is cut."""

    def resume(last_id: str | None) -> Call:
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        return Call("GET", path, {**query, "kind": kind, "follow": 1}, headers)

    plan = StreamPlan(resume, lambda at, seen: int(at) <= int(seen), last, None if since is None else str(since))
    for message in follow(transport, plan):
        yield parse(message.data)


def output(
    transport: Transport,
    path: str,
    *,
    after: int | None,
    stream: str | None,
    following: bool,
    wake: bool,
) -> Iterator[Output]:
    """Follows output to its end: every byte once, in order, however often the connection is cut."""

    def resume(last_id: str | None) -> Call:
        query = {"after": last_id, "stream": stream, "follow": 1 if following else None, "wake": None if wake else 0}
        return Call("GET", path, query)

    def last(message: SseMessage) -> bool:
        return message.event == "end" and (not following or bool(parse(message.data)["ended"]))

    # The end has the position of what came before it.
    plan = StreamPlan(resume, lambda at, seen: int(at) < int(seen), last, None if after is None else str(after))
    position = -1 if after is None else after
    for message in follow(transport, plan):
        chunk: Chunk = parse(message.data)
        if chunk["type"] == "end" or chunk["cursor"] <= position:
            continue
        position = chunk["cursor"]
        if chunk["type"] == "gap":
            yield Output(None, b"", chunk["cursor"], chunk["lost"])
        else:
            yield Output(chunk["stream"], decode(chunk["data"], chunk.get("encoding")), chunk["cursor"])
