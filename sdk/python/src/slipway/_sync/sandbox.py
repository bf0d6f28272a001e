"""A sandbox, and what is done with it."""
# Generated from the file of this name in _async by generate.py.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from .._result import Command, RunResult, exec_create, given, new_key, segment
from ..types import ActivityView, EventView, ExecAnswer, SandboxView, StatsView
from .execs import Exec, Terminal, run, start
from .files import Files
from .pages import items
from .previews import Previews
from .services import Services
from .snapshots import SandboxSnapshots
from .stream import events
from .tasks import Tasks
from .transport import OPERATION_S, Transport, Call

PATH = "/v1/sandboxes"


class Sandbox:
    """A sandbox. `sandboxes.create`, `get` and `ensure` return it."""

    def __init__(self, transport: Transport, view: SandboxView) -> None:
        self.id: str = view["id"]
        #: As it was when it was last asked for.
        self.view = view
        self._transport = transport
        self._path = f"{PATH}/{segment(self.id)}"
        self._execs = f"{self._path}/execs"
        self.files = Files(transport, self._path)
        self.tasks = Tasks(transport, self._path)
        self.services = Services(transport, self._path)
        self.snapshots = SandboxSnapshots(transport, self.id)
        self.previews = Previews(transport, self._path)

    def run(
        self,
        command: Command,
        *,
        id: str | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        stdin: str | None = None,
        timeout_s: float | None = None,
        wake: bool = True,
        check: bool = False,
        call_timeout_s: float | None = None,
    ) -> RunResult:
        """Runs a command to its end: a line for the shell, or a program with its arguments. One that fails is a value;
        with `check` it is a `CommandError`. `timeout_s` kills the command and is a value too; `call_timeout_s` gives
        the call up, cancels the command, and is an error."""
        return run(
            self._transport,
            self._execs,
            command,
            id=id,
            cwd=cwd,
            env=env,
            stdin=stdin,
            timeout_s=timeout_s,
            wake=wake,
            check=check,
            call_timeout_s=call_timeout_s,
        )

    def exec(
        self,
        command: Command,
        *,
        id: str | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        stdin: str | None = None,
        stdin_open: bool = False,
        timeout_s: float | None = None,
        wake: bool = True,
        call_timeout_s: float | None = None,
    ) -> Exec:
        """Starts a command, whose output is streamed and which can be written to with `stdin_open`."""
        body = exec_create(command, cwd, env, stdin, timeout_s) | {"id": id or new_key(), "stdin_open": stdin_open}
        start(self._transport, self._execs, body, wake, call_timeout_s)
        # Text in the request comes before what is written.
        return Exec(self._transport, self._execs, body["id"], fresh=id is None and stdin is None)

    def attach_exec(self, id: str) -> Exec:
        """A command that was started before, by this id. It is not asked for: `get` does."""
        return Exec(self._transport, self._execs, id)

    def execs(self) -> Iterator[ExecAnswer]:
        """Commands and terminals, newest first."""
        return items(self._transport, self._execs)

    def terminal(
        self,
        command: Command = ("bash", "-l"),
        *,
        cols: int = 80,
        rows: int = 24,
        id: str | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        wake: bool = True,
        call_timeout_s: float | None = None,
    ) -> Terminal:
        """Starts a program on a terminal. Default: a login shell."""
        body = exec_create(command, cwd, env, None, None) | {"id": id or new_key(), "tty": {"cols": cols, "rows": rows}}
        start(self._transport, self._execs, body, wake, call_timeout_s)
        return self.attach_terminal(body["id"])

    def attach_terminal(self, id: str, *, after: int | None = None, wake: bool = True) -> Terminal:
        """A terminal that was started before. With `after` its output begins exactly at that byte."""
        return Terminal(self._transport, self._execs, id, after=after, wake=wake)

    def events(self, *, since: int | None = None, kind: str | list[str] | None = None) -> Iterator[EventView]:
        """Events of the sandbox and of its tasks, as they happen. It does not end by itself."""
        return events(self._transport, f"{self._path}/events", {}, since, kind)

    def refresh(self, *, call_timeout_s: float | None = None) -> SandboxView:
        return self._update(Call("GET", self._path), call_timeout_s)

    def update(
        self,
        *,
        name: str | None = None,
        metadata: dict[str, str] | None = None,
        call_timeout_s: float | None = None,
    ) -> SandboxView:
        """Changes name or metadata."""
        json = given(name=name, metadata=metadata)
        return self._update(Call("PATCH", self._path, json=json), call_timeout_s)

    def start(self, *, wait: str | None = None, call_timeout_s: float | None = None) -> SandboxView:
        """`wait` is how long hostd waits for the end of the operation, as `30s`; `0` answers at once."""
        return self._update(self._operation("start", wait=wait), call_timeout_s)

    def stop(self, *, wait: str | None = None, call_timeout_s: float | None = None) -> SandboxView:
        return self._update(self._operation("stop", wait=wait), call_timeout_s)

    def pause(self, *, wait: str | None = None, call_timeout_s: float | None = None) -> SandboxView:
        return self._update(self._operation("pause", wait=wait), call_timeout_s)

    def resume(self, *, wait: str | None = None, call_timeout_s: float | None = None) -> SandboxView:
        return self._update(self._operation("resume", wait=wait), call_timeout_s)

    def recreate(
        self,
        *,
        workspace: Literal["keep", "remove"] | None = None,
        wait: str | None = None,
        call_timeout_s: float | None = None,
    ) -> SandboxView:
        """Stops it and starts it from its frozen blueprint."""
        call = self._operation("recreate", wait=wait, workspace=workspace)
        call.repeatable = "once"
        return self._update(call, call_timeout_s)

    def delete(
        self,
        *,
        workspace: Literal["keep", "remove"] | None = None,
        wait: str | None = None,
        call_timeout_s: float | None = None,
    ) -> SandboxView:
        """Destroys it, with its files unless they are kept."""
        query = given(wait=wait, workspace=workspace)
        return self._update(Call("DELETE", self._path, query, default_s=OPERATION_S), call_timeout_s)

    def keepalive(self, *, call_timeout_s: float | None = None) -> SandboxView:
        """Postpones its sleep."""
        return self._update(Call("POST", f"{self._path}/keepalive", repeatable="safe"), call_timeout_s)

    def set_ttl(self, ttl: str | None, *, call_timeout_s: float | None = None) -> SandboxView:
        """Changes its remaining lifetime, as `2h`."""
        return self._update(Call("PATCH", f"{self._path}/ttl", json={"ttl": ttl}), call_timeout_s)

    def set_limits(
        self,
        *,
        memory_mb: int | None = None,
        cpus: float | None = None,
        pids: int | None = None,
        call_timeout_s: float | None = None,
    ) -> SandboxView:
        """Changes its limits, also while it runs."""
        json = given(memory_mb=memory_mb, cpus=cpus, pids=pids)
        return self._update(Call("PATCH", f"{self._path}/limits", json=json), call_timeout_s)

    def activity(self, *, call_timeout_s: float | None = None) -> ActivityView:
        """Why it is awake, and when it will sleep."""
        return self._transport.json(Call("GET", f"{self._path}/activity"), call_timeout_s)

    def stats(self, *, call_timeout_s: float | None = None) -> StatsView:
        return self._transport.json(Call("GET", f"{self._path}/stats"), call_timeout_s)

    def _operation(self, verb: str, **query: Any) -> Call:
        path = f"{self._path}/{verb}"
        return Call("POST", path, given(**query), repeatable="safe", default_s=OPERATION_S)

    def _update(self, call: Call, call_timeout_s: float | None) -> SandboxView:
        self.view = self._transport.json(call, call_timeout_s)
        return self.view
