"""Snapshots of the files of a sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from .._result import given, segment
from ..types import SnapshotCreate, SnapshotFork, SnapshotVerification, SnapshotView
from .files import _pieces
from .pages import items
from .transport import OPERATION_S, AsyncTransport, Body, Call

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .sandbox import AsyncSandbox

PATH = "/v1/snapshots"


class AsyncSnapshot:
    """A saved copy of the files of a sandbox."""

    def __init__(self, transport: AsyncTransport, view: SnapshotView) -> None:
        self.id: str = view["id"]
        #: As it was when it was last asked for.
        self.view = view
        self._transport = transport
        self._path = f"{PATH}/{segment(self.id)}"

    async def refresh(self, *, call_timeout_s: float | None = None) -> SnapshotView:
        self.view = await self._transport.json(Call("GET", self._path), call_timeout_s)
        return self.view

    async def restore(self, *, sandbox: str | None = None, call_timeout_s: float | None = None) -> AsyncSandbox:
        """Makes the files of a sandbox those of this snapshot again. Default: the sandbox that it was taken of."""
        call = Call("POST", f"{self._path}/restore", json=given(sandbox=sandbox), default_s=OPERATION_S)
        return await self._sandbox(call, call_timeout_s)

    async def fork(
        self, *, wait: str | None = None, call_timeout_s: float | None = None, **spec: Unpack[SnapshotFork]
    ) -> AsyncSandbox:
        """Makes another sandbox with these files."""
        query = given(wait=wait)
        call = Call("POST", f"{self._path}/fork", query, json=spec, creates=True, default_s=OPERATION_S)
        return await self._sandbox(call, call_timeout_s)

    async def verify(self, *, call_timeout_s: float | None = None) -> SnapshotVerification:
        """Reads every file and compares its hash."""
        call = Call("POST", f"{self._path}/verify", repeatable="safe", default_s=OPERATION_S)
        return await self._transport.json(call, call_timeout_s)

    def archive(self, *, call_timeout_s: float | None = None) -> AsyncIterator[bytes]:
        """An archive of it, for another host: tar, compressed with zstd."""
        call = Call("GET", f"{self._path}/archive", headers={"Accept": "*/*"}, default_s=OPERATION_S)
        return _pieces(self._transport, call, call_timeout_s)

    async def delete(self, *, call_timeout_s: float | None = None) -> None:
        await self._transport.done(Call("DELETE", self._path), call_timeout_s)

    async def _sandbox(self, call: Call, call_timeout_s: float | None) -> AsyncSandbox:
        from .sandbox import AsyncSandbox

        return AsyncSandbox(self._transport, await self._transport.json(call, call_timeout_s))


class AsyncSnapshots:
    """All snapshots that the caller may see."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def get(self, id: str, *, call_timeout_s: float | None = None) -> AsyncSnapshot:
        view = await self._transport.json(Call("GET", f"{PATH}/{segment(id)}"), call_timeout_s)
        return AsyncSnapshot(self._transport, view)

    def list(self, *, sandbox: str | None = None) -> AsyncIterator[SnapshotView]:
        return items(self._transport, PATH, given(sandbox=sandbox))

    async def import_archive(
        self, archive: Body, *, name: str | None = None, call_timeout_s: float | None = None
    ) -> AsyncSnapshot:
        """Imports an archive of another host."""
        call = Call("POST", PATH, given(name=name), body=archive, default_s=OPERATION_S)
        return AsyncSnapshot(self._transport, await self._transport.json(call, call_timeout_s))


class AsyncSandboxSnapshots:
    """Snapshots of one sandbox."""

    def __init__(self, transport: AsyncTransport, id: str) -> None:
        self._transport = transport
        self._id = id

    async def create(self, *, call_timeout_s: float | None = None, **spec: Unpack[SnapshotCreate]) -> AsyncSnapshot:
        """Takes one, whether the sandbox runs or not. One with a name is kept until it is deleted."""
        path = f"/v1/sandboxes/{segment(self._id)}/snapshots"
        call = Call("POST", path, json=spec, creates=True, default_s=OPERATION_S)
        return AsyncSnapshot(self._transport, await self._transport.json(call, call_timeout_s))

    def list(self) -> AsyncIterator[SnapshotView]:
        return AsyncSnapshots(self._transport).list(sandbox=self._id)
