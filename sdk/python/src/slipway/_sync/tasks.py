"""Coding tasks of agents in a sandbox."""
# Generated from the file of this name in _async by generate.py.

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from .._result import Output, given, new_key, segment
from ..errors import ProtocolError
from ..types import (
    FileDiffView,
    Permissions,
    TaskAnswer,
    TaskBudget,
    TaskEventView,
    TaskResult,
    TaskRevertView,
)
from .pages import items
from .stream import events, output
from .transport import OPERATION_S, Transport, Call


class Task:
    """A task. It goes on whatever becomes of this object, and of hostd."""

    def __init__(self, transport: Transport, tasks: str, view: TaskAnswer) -> None:
        self.id: str = view["id"]
        #: As it was when it was last asked for.
        self.view = view
        self._transport = transport
        self._path = f"{tasks}/{segment(self.id)}"

    def refresh(self, *, call_timeout_s: float | None = None) -> TaskAnswer:
        self.view = self._transport.json(Call("GET", self._path), call_timeout_s)
        return self.view

    def events(self, *, since: int | None = None, kind: str | list[str] | None = None) -> Iterator[TaskEventView]:
        """Its events until `done`, which is last and has the result. Each comes once and in order, however often the
        connection is cut. `event["kind"]` narrows the type; a newer hostd may send kinds that are not in it."""
        path = f"{self._path}/events"
        return events(self._transport, path, {}, since, kind, lambda message: message.event == "done")

    def result(self) -> TaskResult:
        """Waits for its end. A task that fails is a value: `status` and `failure_reason` say why."""
        for _ in self.events(kind="done"):
            pass
        result = (self.refresh()).get("result")
        if not result:
            raise ProtocolError(f"task {self.id} has ended without a result")
        return result

    def cancel(self, *, call_timeout_s: float | None = None) -> TaskAnswer:
        """Asks for its end, in any phase; `result` waits for it."""
        call = Call("POST", f"{self._path}/cancel", repeatable="safe")
        self.view = self._transport.json(call, call_timeout_s)
        return self.view

    def answer(
        self,
        permission: str,
        decision: Literal["allow", "deny"],
        *,
        option: str | None = None,
        call_timeout_s: float | None = None,
    ) -> None:
        """Answers a permission request of its agent: the `id` of an event `permission`."""
        json = {"decision": decision} | given(option=option)
        path = f"{self._path}/permissions/{segment(permission)}"
        self._transport.done(Call("POST", path, json=json), call_timeout_s)

    def changes(self) -> Iterator[FileDiffView]:
        """Yields what the task changed, file by file."""
        return items(self._transport, f"{self._path}/changes", key="files")

    def revert(
        self,
        *,
        path: str | None = None,
        dry_run: bool | None = None,
        discard: bool | None = None,
        call_timeout_s: float | None = None,
    ) -> TaskRevertView:
        """Restores the files from before the task."""
        json = given(path=path, dry_run=dry_run, discard=discard)
        call = Call("POST", f"{self._path}/revert", json=json, creates=True, default_s=OPERATION_S)
        return self._transport.json(call, call_timeout_s)

    def log(self, *, after: int | None = None, follow: bool = True, wake: bool = True) -> Iterator[Output]:
        """Everything its agent printed."""
        return output(self._transport, f"{self._path}/log", after=after, stream=None, following=follow, wake=wake)


class Tasks:
    """Tasks of one sandbox."""

    def __init__(self, transport: Transport, sandbox: str) -> None:
        self._transport = transport
        self._path = f"{sandbox}/tasks"

    def submit(
        self,
        prompt: str = "",
        *,
        id: str | None = None,
        agent: str | None = None,
        model: str | None = None,
        command: list[str] | None = None,
        continues: bool | None = None,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        build: str | None = None,
        briefing: str | None = None,
        permissions: Permissions | None = None,
        budget: TaskBudget | None = None,
        keep_processes: bool | None = None,
        timeout_s: float | None = None,
        idle_timeout_s: float | None = None,
        call_timeout_s: float | None = None,
    ) -> Task:
        """Stores a task, which is then carried out whatever becomes of the client. The same `id` is the same task.
        `continues` continues the last session of the agent; `timeout_s` is for the whole task."""
        json = {"prompt": prompt, "id": id or new_key()}
        json |= given(agent=agent, model=model, command=command, env=env, cwd=cwd, build=build, briefing=briefing)
        json |= given(permissions=permissions, budget=budget, keep_processes=keep_processes)
        json |= given(timeout_s=timeout_s, idle_timeout_s=idle_timeout_s, **{"continue": continues})
        call = Call("POST", self._path, json=json, repeatable="safe")
        return Task(self._transport, self._path, self._transport.json(call, call_timeout_s))

    def get(self, id: str, *, call_timeout_s: float | None = None) -> Task:
        view = self._transport.json(Call("GET", f"{self._path}/{segment(id)}"), call_timeout_s)
        return Task(self._transport, self._path, view)

    def list(self) -> Iterator[TaskAnswer]:
        """Newest first."""
        return items(self._transport, self._path)
