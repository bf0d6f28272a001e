"""Parses server-sent events. Pure: bytes go in, however they are cut, and messages come out."""

from __future__ import annotations

from typing import NamedTuple

#: A line is at most this long: a stream that never ends one is not of Slipway.
LINE_MAX_BYTES = 64 * 1024 * 1024


class SseMessage(NamedTuple):
    #: The last `id` seen, also one of an earlier message; empty before the first.
    id: str
    #: `message` where the stream does not say.
    event: str
    data: str


class SseParser:
    """Keeps what of the stream is not whole yet."""

    def __init__(self) -> None:
        #: Time in milliseconds after which the server wants clients to reconnect, where it says so.
        self.retry_ms: int | None = None
        self._line = bytearray()
        self._after_return = False
        self._first = True
        self._id = ""
        self._event = ""
        self._data: list[str] = []

    def push(self, piece: bytes) -> list[SseMessage]:
        """Returns the messages that these bytes complete."""
        messages: list[SseMessage] = []
        # Of bytes, lines end with LF, CR LF or CR and nothing else.
        for part in piece.splitlines(keepends=True):
            if self._after_return and part == b"\n":
                self._after_return = False
                continue
            self._after_return = part.endswith(b"\r")
            ends = part.endswith((b"\r", b"\n"))
            self._line += part.rstrip(b"\r\n") if ends else part
            if len(self._line) > LINE_MAX_BYTES:
                raise ValueError("a line of the event stream is too long")
            message = self._end_line() if ends else None
            if message is not None:
                messages.append(message)
        return messages

    def _end_line(self) -> SseMessage | None:
        text = self._line.decode("utf-8", "replace")
        self._line.clear()
        if self._first:
            self._first = False
            text = text.removeprefix("\ufeff")
        if text == "":
            return self._end_message()
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._event = value
        elif field == "id" and "\0" not in value:
            self._id = value
        elif field == "retry" and value.isascii() and value.isdigit():
            self.retry_ms = int(value)
        return None

    def _end_message(self) -> SseMessage | None:
        """Returns the message, or nothing where the stream has no data for one."""
        data, event = self._data, self._event
        self._data, self._event = [], ""
        if not data:
            return None
        return SseMessage(self._id, event or "message", "\n".join(data))
