"""Addresses of the apps in a sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator

from .._result import given, segment
from ..errors import SlipwayError
from ..types import PortView, PreviewLinkCreated, PreviewLinkView
from .pages import items
from .transport import AsyncTransport, Call


class AsyncPreviews:
    def __init__(self, transport: AsyncTransport, sandbox: str) -> None:
        self._transport = transport
        self._sandbox = sandbox

    async def url(self, port: int, *, call_timeout_s: float | None = None) -> str:
        """The address of a port: one of the sandbox's spec, or one that something listens on now."""
        view = await self._transport.json(Call("GET", self._sandbox), call_timeout_s)
        known = view.get("previews", {}).get(str(port))
        if known:
            return str(known)
        async for each in self.ports():
            preview = each.get("preview")
            if each["port"] == port and preview:
                return preview
        raise SlipwayError(f"nothing listens on port {port}, and it is not in the spec of the sandbox")

    def ports(self) -> AsyncIterator[PortView]:
        """Ports that something listens on."""
        return items(self._transport, f"{self._sandbox}/ports")

    async def link(
        self, port: int, *, ttl: str | None = None, path: str | None = None, call_timeout_s: float | None = None
    ) -> PreviewLinkCreated:
        """A link for a browser to a private preview. Only this answer has its pass."""
        json = {"port": port} | given(ttl=ttl, path=path)
        return await self._transport.json(Call("POST", f"{self._sandbox}/preview-links", json=json), call_timeout_s)

    def links(self) -> AsyncIterator[PreviewLinkView]:
        return items(self._transport, f"{self._sandbox}/preview-links")

    async def revoke_link(self, id: str, *, call_timeout_s: float | None = None) -> None:
        await self._transport.done(Call("DELETE", f"{self._sandbox}/preview-links/{segment(id)}"), call_timeout_s)
