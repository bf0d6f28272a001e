"""Sends requests: token, time limits, repetitions, errors. The token leaves this file in a header only."""
# Generated from the file of this name in _async by generate.py.

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Union
from urllib.parse import urlsplit

import httpx

from .._concurrency import sleep
from .._result import new_key, parse, query_of
from .._retry import Repeatable, RetryPolicy, pause_before, retry_after
from ..errors import ApiError, DeadlineExceededError, SlipwayError, TransportError, error_of

#: Content to send. An iterable can be sent once only.
Body = Union[bytes, str, Iterable[bytes]]

CONNECT_S = 20.0
#: For calls that answer when an operation of a sandbox has ended: hostd has deadlines of its own.
OPERATION_S = 35 * 60.0


@dataclass
class Call:
    """A request, as far as a resource describes it."""

    method: str
    path: str
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    json: Any = None
    body: Body | None = None
    #: Default: `once` for POST, else `safe`.
    repeatable: Repeatable | None = None
    #: Sends an `Idempotency-Key`, the same for every repetition, which makes the call safe to repeat.
    creates: bool = False
    #: The time limit where the caller gives none; 0 is for ever.
    default_s: float | None = None

    def may_repeat(self) -> Repeatable:
        if self.body is not None and not isinstance(self.body, (bytes, str)):
            return "once"
        if self.creates:
            return "safe"
        return self.repeatable or ("once" if self.method == "POST" else "safe")


class Deadline:
    """The end of a call, or none."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds if seconds > 0 else None

    def left(self) -> float | None:
        """Seconds that are left; raises an error when there are none."""
        if self._end is None:
            return None
        left = self._end - time.monotonic()
        if left <= 0:
            raise DeadlineExceededError(f"the call took longer than {self._seconds:g} s")
        return left


class Transport:
    """Connections to one hostd."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        timeout_s: float = 60.0,
        retry: RetryPolicy | None = None,
        silence_s: float = 40.0,
        outage_s: float = 120.0,
        http: httpx.Client | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the URL must be http or https")
        if parts.username or parts.password:
            raise ValueError("the URL must not contain a password")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self.retry = retry or RetryPolicy()
        self.silence_s = silence_s
        self.outage_s = outage_s
        self._timeout_s = timeout_s
        self._token = token
        self._http = http or httpx.Client(limits=httpx.Limits(max_connections=None))

    def close(self) -> None:
        self._http.close()

    def json(self, call: Call, call_timeout_s: float | None = None) -> Any:
        """The JSON of the response."""
        return parse(self.bytes(call, call_timeout_s))

    def done(self, call: Call, call_timeout_s: float | None = None) -> None:
        """For calls whose response has no content."""
        self.bytes(call, call_timeout_s)

    def bytes(self, call: Call, call_timeout_s: float | None = None) -> bytes:
        """All bytes of the response."""
        deadline = self._deadline(call, call_timeout_s)
        response = self._repeated(call, deadline)
        try:
            return response.read()
        except httpx.TimeoutException as error:
            raise DeadlineExceededError("the response took too long") from error
        except httpx.TransportError as error:
            raise TransportError(f"the response was cut off: {error}") from error
        finally:
            response.close()

    def open(self, call: Call, call_timeout_s: float | None = None) -> httpx.Response:
        """The response as it begins, to be closed. The time limit is for its beginning."""
        return self._repeated(call, self._deadline(call, call_timeout_s))

    def send(self, call: Call, timeout: httpx.Timeout) -> httpx.Response:
        """Sends the request once, without repetitions. The response may be an error."""
        query = query_of(call.query)
        url = f"{self.url}{call.path}{'?' + query if query else ''}"
        headers = {"Accept": "application/json", **call.headers}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if call.body is not None:
            headers.setdefault("Content-Type", "application/octet-stream")
        request = self._http.build_request(
            call.method, url, headers=headers, json=call.json, content=call.body, timeout=timeout
        )
        try:
            return self._http.send(request, stream=True, follow_redirects=False)
        except httpx.TransportError as error:
            refused = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
            reason = str(error) or type(error).__name__
            raise TransportError(f"could not reach {self.url}: {reason}", refused=refused) from error

    def _deadline(self, call: Call, call_timeout_s: float | None) -> Deadline:
        default = self._timeout_s if call.default_s is None else call.default_s
        return Deadline(default if call_timeout_s is None else call_timeout_s)

    def _repeated(self, call: Call, deadline: Deadline) -> httpx.Response:
        """Repeats the call until it succeeds or must not be repeated."""
        if call.creates:
            call.headers = {**call.headers, "Idempotency-Key": new_key()}
        repeated, cut = 0, False
        while True:
            try:
                left = deadline.left()
                connect = CONNECT_S if left is None else min(CONNECT_S, left)
                response = self.send(call, httpx.Timeout(left, connect=connect, pool=connect))
                if response.is_success:
                    return response
                # Deleted by the request before, whose response was lost.
                if cut and call.method == "DELETE" and response.status_code == 404:
                    return response
                raise failed(response)
            except SlipwayError as error:
                deadline.left()
                cut = cut or isinstance(error, TransportError)
                after = error.retry_after_s if isinstance(error, ApiError) else None
                pause = pause_before(error, call.may_repeat(), repeated, after, random.random(), self.retry)
                if pause is None:
                    raise
            sleep(min(pause, deadline.left() or pause))
            repeated += 1


def failed(response: httpx.Response) -> ApiError:
    """The error in a response, which is closed."""
    try:
        body = response.read()
    except httpx.TransportError:
        body = b""
    finally:
        response.close()
    error = error_of(response.status_code, body, response.headers.get("x-request-id"))
    error.retry_after_s = retry_after(response.headers.get("retry-after"), time.time())
    return error
