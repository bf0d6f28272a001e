"""Results and parts of output, the same for both clients."""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union
from urllib.parse import quote

from .errors import ProtocolError
from .types import ExecAnswer, Exit, Hint, Stream

#: A command: a line for the shell, or a program with its arguments.
Command = Union[str, Sequence[str]]
#: Relative to `/home/sandbox`; the app is in `workspace/app`. Bytes for a name that is not UTF-8.
Path = Union[str, bytes]


@dataclass(frozen=True)
class RunResult:
    """How a command ended. A command that fails is a value, not an error."""

    id: str
    exit: Exit
    stdout_bytes: bytes
    stderr_bytes: bytes
    #: Whether output is missing here because there was too much: `attach_exec(id).output()` reads all that is kept.
    truncated: bool
    hints: list[Hint]
    duration_ms: int

    @property
    def code(self) -> int | None:
        """Exit code; None where it was killed or never started: `exit` says how it ended."""
        return self.exit["code"] if self.exit["kind"] == "exited" else None

    @property
    def ok(self) -> bool:
        """Whether it exited with 0."""
        return self.code == 0

    @property
    def stdout(self) -> str:
        """Text of its output; bytes that are not UTF-8 are replaced, `stdout_bytes` has them."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")


@dataclass(frozen=True)
class Output:
    """A part of the output of a command or service."""

    #: Where it was printed; None for a gap.
    stream: Stream | None
    data: bytes
    #: The position after it, over all streams: `after` continues there.
    cursor: int
    #: Bytes that are lost before this position, because the disk was full or old output was trimmed. Mostly 0.
    lost: int = 0


@dataclass(frozen=True)
class FileEvent:
    """A change below a watched directory. After `overflow` changes are missing: list the tree again."""

    kind: Literal["created", "modified", "deleted", "moved", "ready", "overflow"]
    path: str = ""
    directory: bool = False
    #: Where a moved path was before.
    moved_from: str | None = None


def result_of(answer: ExecAnswer) -> RunResult:
    encoding = answer.get("encoding")
    return RunResult(
        id=answer["id"],
        exit=answer.get("exit") or {"kind": "lost"},
        stdout_bytes=decode(answer.get("stdout") or "", encoding),
        stderr_bytes=decode(answer.get("stderr") or "", encoding),
        truncated=answer.get("truncated", False),
        hints=answer.get("hints", []),
        duration_ms=answer.get("duration_ms") or 0,
    )


def failure(command: Command, result: RunResult) -> str:
    """Returns one line about a command that failed."""
    program = command if isinstance(command, str) else (command[0] if command else "")
    how = f"exited with {result.code}" if result.code is not None else f"ended: {result.exit['kind']}"
    last = result.stderr.rstrip().rsplit("\n", 1)[-1][:500]
    return f"{program[:100]} {how}{': ' + last if last else ''}"


def exec_create(
    command: Command,
    cwd: str | None,
    env: dict[str, str] | None,
    stdin: str | None,
    timeout_s: float | None,
) -> dict[str, Any]:
    what: dict[str, Any] = {"shell": command} if isinstance(command, str) else {"argv": list(command)}
    return what | given(cwd=cwd, env=env, stdin=stdin, timeout_s=timeout_s)


def decode(text: str, encoding: str | None) -> bytes:
    """The bytes of text that is base64 where it was not UTF-8."""
    return base64.b64decode(text) if encoding == "base64" else text.encode()


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def parse(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ProtocolError("hostd did not answer with JSON") from error


def query_of(query: dict[str, Any]) -> str:
    """A query string; None is left out, bytes are sent as they are."""
    pairs = []
    for name, value in query.items():
        if value is None:
            continue
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, (list, tuple)):
            value = ",".join(value)
        pairs.append(f"{name}={quote(value if isinstance(value, bytes) else str(value), safe='')}")
    return "&".join(pairs)


def segment(part: str) -> str:
    """A part of a path."""
    return quote(part, safe="")


def new_key() -> str:
    """A new id: of an exec, a task, or an idempotency key."""
    return secrets.token_hex(16)


def environment(name: str) -> str | None:
    return os.environ.get(name) or None
