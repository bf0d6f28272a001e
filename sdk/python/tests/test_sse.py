"""The parser of server-sent events: the same wherever the bytes are cut."""

import unittest

from slipway._sse import SseMessage, SseParser

TABLE = [
    ("id: 1\nevent: log\ndata: {}\n\n", [SseMessage("1", "log", "{}")]),
    ("\ufeffdata: a\r\ndata:b\r\r\nid: 2\n\n", [SseMessage("", "message", "a\nb")]),
    (": still here\n\nretry: 1000\n\n", []),
    (
        "id: 1\ndata\n\nevent: e\n\ndata: over\n\n",
        [SseMessage("1", "message", ""), SseMessage("1", "message", "over")],
    ),
    ("id: a\0b\ndata: grüße 🛶\x0b\x0c\x85\u2028\nunknown: x\n\ndata: cut", [SseMessage("", "message", "grüße 🛶\x0b\x0c\x85\u2028")]),
    (
        "data:  two spaces\rid:3\r\rdata: next\n\n",
        [SseMessage("3", "message", " two spaces"), SseMessage("3", "message", "next")],
    ),
]


class Sse(unittest.TestCase):
    def test_a_stream_is_the_same_wherever_it_is_cut(self) -> None:
        for text, expected in TABLE:
            whole = text.encode()
            for one in range(len(whole) + 1):
                for two in range(one, len(whole) + 1):
                    parser = SseParser()
                    parts = (whole[:one], whole[one:two], whole[two:])
                    found = [message for part in parts for message in parser.push(part)]
                    self.assertEqual(found, expected, f"{text!r} at {one}, {two}")
            parser = SseParser()
            found = [message for byte in whole for message in parser.push(bytes([byte]))]
            self.assertEqual(found, expected, f"{text!r} byte by byte")

    def test_the_time_to_reconnect_is_read(self) -> None:
        parser = SseParser()
        parser.push(b"retry: 1500\nretry: soon\n\n")
        self.assertEqual(parser.retry_ms, 1500)
