"""An app that answers with bytes of its own making: what a library would not let it do.

Each connection has a thread. The path of a request says what is answered.
"""

import hashlib
import os
import socket
import sys
import threading
import time

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
seen = {"connections": 0, "posts": 0}
lock = threading.Lock()


def count(what):
    with lock:
        seen[what] += 1
        return seen[what]


class Peer:
    def __init__(self, sock):
        self.sock, self.buffer = sock, b""

    def more(self):
        piece = self.sock.recv(65536)
        if not piece:
            raise EOFError
        self.buffer += piece

    def until(self, mark):
        while mark not in self.buffer:
            self.more()
        head, self.buffer = self.buffer.split(mark, 1)
        return head

    def exactly(self, length):
        while len(self.buffer) < length:
            self.more()
        piece, self.buffer = self.buffer[:length], self.buffer[length:]
        return piece

    def pieces(self, headers):
        """The body, piece by piece; then its trailers, if it has some."""
        if "transfer-encoding" in headers:
            while size := int(self.until(b"\r\n").split(b";")[0], 16):
                yield self.exactly(size)
                self.until(b"\r\n")
            while line := self.until(b"\r\n"):
                headers["trailer " + line.decode()] = ""
        else:
            left = int(headers.get("content-length", 0))
            while left:
                if not self.buffer:
                    self.more()
                piece = self.exactly(min(left, len(self.buffer)))
                left -= len(piece)
                yield piece

    def answer(self, body, status="200 OK", extra=""):
        if isinstance(body, str):
            body = body.encode()
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
        self.sock.sendall(head.encode() + body)

    def chunk(self, data):
        self.sock.sendall(b"%x\r\n%s\r\n" % (len(data), data))


def upgraded(peer, path):
    if path == "/odd":
        peer.sock.sendall(b"Unauthorized")
    elif path == "/refused":
        peer.answer("no sockets today", "403 Forbidden")
    else:
        peer.sock.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\nhello "
        )
        while True:
            if not peer.buffer:
                peer.more()
            peer.sock.sendall(peer.exactly(len(peer.buffer)))


def serve(peer, method, path, head, headers):
    """Whether the connection goes on."""
    if "upgrade" in headers:
        upgraded(peer, path)
        return False
    if path.split("?")[0] == "/head":
        peer.answer(head)
    elif path == "/body":
        digest, length = hashlib.sha256(), 0
        for piece in peer.pieces(headers):
            digest.update(piece)
            length += len(piece)
        trailers = [name for name in headers if name.startswith("trailer ")]
        peer.answer(f"{method} {length} {digest.hexdigest()} {trailers}")
    elif path == "/pieces":
        # Says what came as soon as it came.
        peer.sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in peer.pieces(headers):
            peer.chunk(piece)
        peer.sock.sendall(b"0\r\n\r\n")
    elif path == "/trailers":
        peer.sock.sendall(b"HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n")
        peer.chunk(b"body")
        peer.sock.sendall(b"0\r\nX-Sum: 42\r\n\r\n")
    elif path == "/counts":
        peer.answer(f"{seen['connections']} {seen['posts']}")
    elif path == "/once":
        # Counts, and is gone without a word at the second request of a connection.
        count("posts")
        if peer.served > 1:
            return False
        peer.answer("once")
    elif path == "/closes":
        return False
    elif path == "/garbage":
        peer.sock.sendall(b"SSH-2.0-Test\r\n")
        return False
    elif path == "/short":
        peer.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
        return False
    elif path == "/unasked":
        peer.sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n")
    elif path == "/lengths":
        peer.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n")
        peer.chunk(b"all of it")
        peer.sock.sendall(b"0\r\n\r\n")
    elif path == "/hints":
        while True:
            peer.sock.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000)
    elif path == "/gate":
        open("came", "w").close()
        while not os.path.exists("go"):
            time.sleep(0.02)
        peer.answer("open")
    elif path == "/large":
        peer.answer(b"x" * (40 << 20))
    elif path == "/never":
        threading.Event().wait()
    elif path == "/moved":
        peer.answer("", "302 Found", f"Location: http://localhost:{PORT}/there\r\nSet-Cookie: a=1; Domain=localhost\r\n")
    elif path == "/commands":
        clears = 'Clear-Site-Data: "cookies", "storage"\r\nClear-Site-Data: "*"\r\n'
        peer.answer("", extra=f"X-Slipway-Error: waking\r\nX-Accel-Redirect: /x\r\nX-Sendfile: /x\r\n{clears}")
    else:
        peer.answer("hello from raw")
    return True


def talk(sock):
    count("connections")
    peer = Peer(sock)
    peer.served = 0
    try:
        while True:
            head = peer.until(b"\r\n\r\n").decode()
            lines = head.split("\r\n")
            method, path, _ = lines[0].split(" ", 2)
            pairs = [line.split(":", 1) for line in lines[1:]]
            headers = {name.lower(): value.strip() for name, value in pairs}
            peer.served += 1
            if not serve(peer, method, path, head, headers):
                break
            if path not in ("/body", "/pieces"):
                for _ in peer.pieces(headers):
                    pass
    except (EOFError, ConnectionError):
        pass
    finally:
        sock.close()


listener = socket.create_server(("127.0.0.1", PORT), backlog=128)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=talk, args=(connection,), daemon=True).start()
