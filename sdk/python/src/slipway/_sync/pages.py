"""Lists of the API, which come in pages."""
# Generated from the file of this name in _async by generate.py.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .transport import Transport, Call


def items(
    transport: Transport,
    path: str,
    query: dict[str, Any] | None = None,
    call_timeout_s: float | None = None,
    key: str = "items",
) -> Iterator[Any]:
    """All items of a list, page by page as they are needed."""
    query = dict(query or {})
    while True:
        page = transport.json(Call("GET", path, query), call_timeout_s)
        for item in page.get(key, []):
            yield item
        if page.get("next") is None:
            return
        query["after"] = page["next"]
