"""Files of a sandbox's workspace. None of this wakes the sandbox."""
# Generated from the file of this name in _async by generate.py.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from .._result import FileEvent, Path, given, parse, segment
from .._retry import Repeatable
from ..errors import NotFoundError, TransportError
from ..types import FileLinkCreated, FileLinkView, FileView, SearchView, UnpackView, WriteFile
from .pages import items
from .stream import StreamPlan, follow
from .transport import OPERATION_S, Transport, Body, Call

import httpx

ArchiveFormat = Literal["tar", "tar.gz", "zip"]


class Files:
    """Paths are relative to `/home/sandbox`; the app is in `workspace/app`. A name that is not UTF-8 is given as bytes."""

    def __init__(self, transport: Transport, sandbox: str) -> None:
        self._transport = transport
        self._sandbox = sandbox

    def read(self, path: Path, *, call_timeout_s: float | None = None) -> bytes:
        """The bytes of a file."""
        return self._transport.bytes(self._call("GET", "content", path=path), call_timeout_s)

    def read_text(self, path: Path, *, call_timeout_s: float | None = None) -> str:
        """The text of a file, as UTF-8."""
        return (self.read(path, call_timeout_s=call_timeout_s)).decode("utf-8", "replace")

    def read_stream(self, path: Path, *, call_timeout_s: float | None = None) -> Iterator[bytes]:
        """The bytes of a file piece by piece, for one that does not fit into memory."""
        return _pieces(self._transport, self._call("GET", "content", path=path), call_timeout_s)

    def write(
        self,
        path: Path,
        content: Body,
        *,
        mode: str | None = None,
        append: bool = False,
        if_match: str | None = None,
        create: bool = False,
        call_timeout_s: float | None = None,
    ) -> FileView:
        """Writes a file at once: readers see the old content or the new. Missing directories are made. With `if_match`
        only if the file still has this `etag`, with `create` only if there is no such file."""
        call = self._call("PUT", "content", path=path, mode=mode, append=append or None)
        call.body = content.encode() if isinstance(content, str) else content
        call.headers |= given(**{"If-Match": if_match, "If-None-Match": "*" if create else None})
        # Not true any more after it was done.
        conditional = append or create or if_match is not None
        once: Repeatable = "once"
        call.repeatable = once if conditional else "safe"
        return self._transport.json(call, call_timeout_s)

    def write_many(self, files: list[WriteFile], *, call_timeout_s: float | None = None) -> int:
        """Writes many files in one call."""
        call = Call("POST", f"{self._sandbox}/files/write-many", json={"files": files}, repeatable="safe")
        return int((self._transport.json(call, call_timeout_s))["updated"])

    def list(
        self,
        path: Path = "",
        *,
        recursive: bool | None = None,
        depth: int | None = None,
        ignore: bool | None = None,
        exclude: tuple[str, ...] | None = None,
    ) -> Iterator[FileView]:
        """The entries of a directory. `ignore` leaves out `.git` and what ignore files name."""
        query = given(path=path, recursive=recursive, depth=depth, ignore=ignore, exclude=exclude)
        return items(self._transport, f"{self._sandbox}/files", query)

    def stat(self, path: Path, *, follow: bool | None = None, call_timeout_s: float | None = None) -> FileView:
        """Returns one entry; with `follow` the target of a link."""
        return self._transport.json(self._call("GET", "stat", path=path, follow=follow), call_timeout_s)

    def exists(self, path: Path, *, call_timeout_s: float | None = None) -> bool:
        try:
            self.stat(path, call_timeout_s=call_timeout_s)
        except NotFoundError as error:
            # Without `missing` it is the file; with it the sandbox.
            if error.detail.get("missing"):
                raise
            return False
        return True

    def mkdir(self, path: Path, *, mode: str | None = None, call_timeout_s: float | None = None) -> FileView:
        """Makes a directory, and those above it."""
        call = self._call("POST", "mkdir", path=path, mode=mode)
        call.repeatable = "safe"
        return self._transport.json(call, call_timeout_s)

    def move(
        self, source: Path, target: Path, *, overwrite: bool | None = None, call_timeout_s: float | None = None
    ) -> FileView:
        call = self._call("POST", "move", **{"from": source, "to": target, "overwrite": overwrite})
        return self._transport.json(call, call_timeout_s)

    def copy(
        self, source: Path, target: Path, *, overwrite: bool | None = None, call_timeout_s: float | None = None
    ) -> FileView:
        call = self._call("POST", "copy", **{"from": source, "to": target, "overwrite": overwrite})
        return self._transport.json(call, call_timeout_s)

    def remove(
        self,
        path: Path,
        *,
        recursive: bool | None = None,
        if_match: str | None = None,
        call_timeout_s: float | None = None,
    ) -> None:
        """Deletes a file, or with `recursive` a directory and what is in it."""
        call = self._call("DELETE", "content", path=path, recursive=recursive)
        call.headers |= given(**{"If-Match": if_match})
        self._transport.done(call, call_timeout_s)

    def search(
        self,
        path: Path = "",
        *,
        name: str | None = None,
        content: str | None = None,
        ignore_case: bool | None = None,
        hidden: bool | None = None,
        limit: int | None = None,
        ignore: bool | None = None,
        exclude: tuple[str, ...] | None = None,
        call_timeout_s: float | None = None,
    ) -> SearchView:
        """Finds files by name (a glob), by content (a regular expression), or by both."""
        query = given(name=name, content=content, ignore_case=ignore_case, hidden=hidden, limit=limit)
        call = self._call("GET", "search", path=path, ignore=ignore, exclude=exclude, **query)
        return self._transport.json(call, call_timeout_s)

    def watch(self, path: Path = "", *, recursive: bool | None = None) -> Iterator[FileEvent]:
        """Changes below a directory. A watch that is cut continues where it was, or says `overflow`."""

        def resume(last_id: str | None) -> Call:
            headers = {} if last_id is None else {"Last-Event-ID": last_id}
            return Call("GET", f"{self._sandbox}/files/watch", given(path=path, recursive=recursive), headers)

        for message in follow(self._transport, StreamPlan(resume, lambda at, seen: at == seen, lambda _: False)):
            change = parse(message.data)
            kind: Any = message.event
            yield FileEvent(kind, change.get("path", ""), change.get("directory", False), change.get("from"))

    def archive(
        self,
        path: Path = "",
        *,
        format: ArchiveFormat | None = None,
        ignore: bool | None = None,
        exclude: tuple[str, ...] | None = None,
        call_timeout_s: float | None = None,
    ) -> Iterator[bytes]:
        """A directory as an archive, piece by piece."""
        call = self._call("GET", "archive", path=path, format=format, ignore=ignore, exclude=exclude)
        return _pieces(self._transport, call, call_timeout_s)

    def unpack(
        self, path: Path, archive: Body, *, format: ArchiveFormat | None = None, call_timeout_s: float | None = None
    ) -> UnpackView:
        """Unpacks an archive into a directory."""
        call = self._call("PUT", "archive", path=path, format=format)
        call.body, call.default_s = archive, OPERATION_S
        return self._transport.json(call, call_timeout_s)

    def link(
        self,
        method: Literal["GET", "PUT"],
        path: str,
        *,
        ttl: str | None = None,
        max_bytes: int | None = None,
        call_timeout_s: float | None = None,
    ) -> FileLinkCreated:
        """A URL that reads or writes one file without a token."""
        json = {"method": method, "path": path} | given(ttl=ttl, max_bytes=max_bytes)
        return self._transport.json(Call("POST", f"{self._sandbox}/file-links", json=json), call_timeout_s)

    def links(self) -> Iterator[FileLinkView]:
        return items(self._transport, f"{self._sandbox}/file-links")

    def revoke_link(self, id: str, *, call_timeout_s: float | None = None) -> None:
        self._transport.done(Call("DELETE", f"{self._sandbox}/file-links/{segment(id)}"), call_timeout_s)

    def _call(self, method: str, verb: str, **query: Any) -> Call:
        accept = {"Accept": "*/*"} if verb in ("content", "archive") else {}
        return Call(method, f"{self._sandbox}/files/{verb}", query, dict(accept))


def _pieces(transport: Transport, call: Call, call_timeout_s: float | None) -> Iterator[bytes]:
    """The content of a response, piece by piece."""
    response = transport.open(call, call_timeout_s)
    try:
        for piece in response.iter_bytes():
            yield piece
    except httpx.TransportError as error:
        raise TransportError(f"the response was cut off: {error}") from error
    finally:
        response.close()
