"""Processes of a sandbox that should keep running."""
# Generated from the file of this name in _async by generate.py.

from __future__ import annotations

import builtins
from collections.abc import Iterator

from .._result import Output, segment
from ..types import ServiceSpec, ServiceView
from .pages import items
from .stream import output
from .transport import Transport, Call


class Services:
    def __init__(self, transport: Transport, sandbox: str) -> None:
        self._transport = transport
        self._path = f"{sandbox}/services"

    def list(self) -> Iterator[ServiceView]:
        return items(self._transport, self._path)

    def replace(
        self, services: builtins.list[ServiceSpec], *, call_timeout_s: float | None = None
    ) -> builtins.list[ServiceView]:
        """Replaces the whole set. It is stored, and applies after every start of the sandbox."""
        call = Call("PUT", self._path, json={"services": services})
        return (self._transport.json(call, call_timeout_s))["items"]

    def start(self, name: str, *, call_timeout_s: float | None = None) -> ServiceView:
        return self._transport.json(self._verb(name, "start"), call_timeout_s)

    def stop(self, name: str, *, call_timeout_s: float | None = None) -> ServiceView:
        return self._transport.json(self._verb(name, "stop"), call_timeout_s)

    def restart(self, name: str, *, call_timeout_s: float | None = None) -> ServiceView:
        return self._transport.json(self._verb(name, "restart"), call_timeout_s)

    def logs(
        self,
        name: str,
        *,
        after: int | None = None,
        stream: str | None = None,
        follow: bool = False,
        wake: bool = True,
    ) -> Iterator[Output]:
        """Yields what the service printed; with `follow` also what it will print."""
        path = f"{self._path}/{segment(name)}/logs"
        return output(self._transport, path, after=after, stream=stream, following=follow, wake=wake)

    def _verb(self, name: str, verb: str) -> Call:
        path = f"{self._path}/{segment(name)}/{verb}"
        return Call("POST", path, repeatable="once" if verb == "restart" else "safe")
