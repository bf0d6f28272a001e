"""Commands and terminals that were started: their output, input and end."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from .._concurrency import AsyncLock
from .._result import Command, Output, RunResult, exec_create, failure, given, new_key, result_of, segment
from .._retry import Repeatable
from ..errors import CommandError, DeadlineExceededError
from ..types import ExecAnswer
from .stream import output
from .transport import AsyncTransport, Call

#: How long one request waits for the end of a command.
WAIT_S = 60
#: Largest request of input.
INPUT_MAX_BYTES = 1024 * 1024
CANCEL_S = 10.0


class AsyncExec:
    """A command of a sandbox. It goes on whatever becomes of this object, and of hostd."""

    def __init__(self, transport: AsyncTransport, execs: str, id: str, *, fresh: bool = False) -> None:
        self.id = id
        self._transport = transport
        self._path = f"{execs}/{segment(id)}"
        # Only of input that this object alone sends, a repeated piece is recognised.
        self._sent: int | None = 0 if fresh else None
        self._sending = AsyncLock()

    async def get(self, *, call_timeout_s: float | None = None) -> ExecAnswer:
        """Returns what is known of the command; with the output once it has ended."""
        return await self._transport.json(Call("GET", self._path), call_timeout_s)

    async def wait(self, *, call_timeout_s: float | None = None) -> RunResult:
        """Waits for its end."""
        end = None if call_timeout_s is None else time.monotonic() + call_timeout_s
        return result_of(await _ended(self._transport, None, Call("GET", self._path), end))

    def output(
        self,
        *,
        after: int | None = None,
        stream: str | None = None,
        follow: bool = True,
        wake: bool = True,
    ) -> AsyncIterator[Output]:
        """Its output from the beginning, or after a `cursor`, until it ends. It resumes by itself when a connection
        is cut."""
        path = f"{self._path}/output"
        return output(self._transport, path, after=after, stream=stream, following=follow, wake=wake)

    async def write(self, data: bytes | str, *, call_timeout_s: float | None = None) -> None:
        """Writes to its standard input, which must have been opened with `stdin_open` (or a terminal). Pieces arrive
        in order. Of a command that this object started none arrives twice, also if a connection is cut."""
        await self._send(data.encode() if isinstance(data, str) else data, False, call_timeout_s)

    async def close_stdin(self, *, call_timeout_s: float | None = None) -> None:
        """Ends its standard input."""
        await self._send(b"", True, call_timeout_s)

    async def signal(self, name: str, *, call_timeout_s: float | None = None) -> None:
        """Sends a signal, as `INT` or `TERM`, to the command."""
        await self._post("signal", {"signal": name}, "once", call_timeout_s)

    async def cancel(self, *, call_timeout_s: float | None = None) -> None:
        """Ends the command and everything it started: TERM, then KILL."""
        await self._post("cancel", {}, "safe", call_timeout_s)

    async def resize(self, cols: int, rows: int, *, call_timeout_s: float | None = None) -> None:
        """Changes the size of its terminal."""
        await self._post("resize", {"cols": cols, "rows": rows}, "safe", call_timeout_s)

    async def _post(self, verb: str, json: Any, repeatable: Repeatable, call_timeout_s: float | None) -> None:
        call = Call("POST", f"{self._path}/{verb}", json=json, repeatable=repeatable)
        await self._transport.done(call, call_timeout_s)

    async def _send(self, data: bytes, eof: bool, call_timeout_s: float | None) -> None:
        # One piece after the other: the position of one is known when the one before has arrived.
        async with self._sending:
            start, more = 0, True
            while more:
                body = data[start : start + INPUT_MAX_BYTES]
                start += len(body)
                more = start < len(data)
                query = {"at": self._sent, "eof": 1 if eof and not more else None}
                repeatable: Repeatable = "once" if self._sent is None else "safe"
                call = Call("POST", f"{self._path}/stdin", query, body=body, repeatable=repeatable)
                await self._transport.done(call, call_timeout_s)
                if self._sent is not None:
                    self._sent += len(body)


class AsyncTerminal:
    """A terminal of a sandbox. Its program goes on whatever becomes of this viewer."""

    def __init__(self, transport: AsyncTransport, execs: str, id: str, *, after: int | None = None, wake: bool = True) -> None:
        self.id = id
        #: The byte of the output after the last one that was read: `after` of a later `attach_terminal` continues there.
        self.position = after or 0
        self._wake = wake
        self._exec = AsyncExec(transport, execs, id)

    async def output(self) -> AsyncIterator[bytes]:
        """The output, until the program ends. A viewer that is cut attaches again exactly where it was: no byte is
        missing, none comes twice."""
        async for each in self._exec.output(after=self.position, wake=self._wake):
            self.position = each.cursor
            if each.data:
                yield each.data

    async def write(self, data: bytes | str, *, call_timeout_s: float | None = None) -> None:
        """Types. What is typed while the connection is cut may be lost, and is never typed twice."""
        await self._exec.write(data, call_timeout_s=call_timeout_s)

    async def resize(self, cols: int, rows: int, *, call_timeout_s: float | None = None) -> None:
        """Changes the size of the window."""
        await self._exec.resize(cols, rows, call_timeout_s=call_timeout_s)

    async def signal(self, name: str, *, call_timeout_s: float | None = None) -> None:
        """Sends a signal to the program."""
        await self._exec.signal(name, call_timeout_s=call_timeout_s)

    async def cancel(self, *, call_timeout_s: float | None = None) -> None:
        """Ends the program and everything it started."""
        await self._exec.cancel(call_timeout_s=call_timeout_s)

    async def wait(self, *, call_timeout_s: float | None = None) -> RunResult:
        """Waits for the end of the program."""
        return await self._exec.wait(call_timeout_s=call_timeout_s)


async def run(
    transport: AsyncTransport,
    execs: str,
    command: Command,
    *,
    id: str | None,
    cwd: str | None,
    env: dict[str, str] | None,
    stdin: str | None,
    timeout_s: float | None,
    wake: bool,
    check: bool,
    call_timeout_s: float | None,
) -> RunResult:
    id = id or new_key()
    body = exec_create(command, cwd, env, stdin, timeout_s) | {"id": id}
    post = Call("POST", execs, {"wake": None if wake else 0}, json=body, repeatable="safe")
    end = None if call_timeout_s is None else time.monotonic() + call_timeout_s
    try:
        answer = await _ended(transport, post, Call("GET", f"{execs}/{segment(id)}"), end)
    except BaseException as error:
        # Given up by the caller, by a time limit, a cancellation or Ctrl-C: the command ends too.
        if isinstance(error, DeadlineExceededError) or not isinstance(error, Exception):
            await _cancel(transport, execs, id)
        raise
    result = result_of(answer)
    if check and not result.ok:
        raise CommandError(failure(command, result), result)
    return result


async def _cancel(transport: AsyncTransport, execs: str, id: str) -> None:
    try:
        await AsyncExec(transport, execs, id).cancel(call_timeout_s=CANCEL_S)
    except Exception:  # The reason to give up is what the caller is told.
        return


async def start(
    transport: AsyncTransport,
    execs: str,
    body: dict[str, Any],
    wake: bool,
    call_timeout_s: float | None,
) -> None:
    """Starts a command. The same id is the same command, however often it is sent."""
    query = {"wake": None if wake else 0}
    await transport.done(Call("POST", execs, query, json=body | {"wait": False}, repeatable="safe"), call_timeout_s)


async def _ended(transport: AsyncTransport, first: Call | None, again: Call, end: float | None) -> ExecAnswer:
    """Waits for the end: one request is enough for a short command; a long one is asked for again and again."""
    call = first
    while True:
        left = None if end is None else end - time.monotonic()
        if left is not None and left <= 0:
            raise DeadlineExceededError("the command took longer than the call may take")
        # Longer than hostd waits for a GET.
        limit = WAIT_S + 30.0 if left is None else min(left, WAIT_S + 30.0)
        if call is None:
            call = Call(again.method, again.path, given(wait=f"{WAIT_S}s"))
        try:
            answer: ExecAnswer = await transport.json(call, limit)
            if answer["state"] == "ended":
                return answer
        except DeadlineExceededError:
            if limit == left:
                raise
        call = None
