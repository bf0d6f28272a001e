"""Lists of the API, which come in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from .transport import AsyncTransport, Call


async def items(
    transport: AsyncTransport,
    path: str,
    query: dict[str, Any] | None = None,
    call_timeout_s: float | None = None,
    key: str = "items",
) -> AsyncIterator[Any]:
    """All items of a list, page by page as they are needed."""
    query = dict(query or {})
    while True:
        page = await transport.json(Call("GET", path, query), call_timeout_s)
        for item in page.get(key, []):
            yield item
        if page.get("next") is None:
            return
        query["after"] = page["next"]
