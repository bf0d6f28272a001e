"""A plain ASGI app: a socket that echoes, a source of events that waits to be asked, a sink that counts."""

import asyncio
import hashlib
import json

# What `/emit` was told and no source has sent.
events = asyncio.Queue()


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    if scope["type"] == "websocket":
        return await echo(receive, send)
    handler = HANDLERS.get(scope["path"])
    if handler is None:
        return await answer(send, 200, {"hello": "from uvicorn"})
    await handler(scope, receive, send)


async def lifespan(receive, send):
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def echo(receive, send):
    while True:
        message = await receive()
        if message["type"] == "websocket.connect":
            await send({"type": "websocket.accept"})
        elif message["type"] == "websocket.disconnect":
            return
        else:
            kinds = {kind: message[kind] for kind in ("text", "bytes") if message.get(kind) is not None}
            await send({"type": "websocket.send", **kinds})


async def source(scope, receive, send):
    """Sends an event when `/emit` asks for it and not before, so a client that sees one knows that nothing was buffered."""
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send(piece("open"))
    while True:
        event = await events.get()
        await send(piece(event))
        if event == "end":
            return await send({"type": "http.response.body", "body": b""})


def piece(event):
    return {"type": "http.response.body", "body": f"data: {event}\n\n".encode(), "more_body": True}


async def emit(scope, receive, send):
    await events.put(scope["query_string"].decode())
    await answer(send, 200, {})


async def upload(scope, receive, send):
    """How much came, and what it was."""
    length, digest = 0, hashlib.sha256()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length += len(message["body"])
        digest.update(message["body"])
        if not message.get("more_body"):
            return await answer(send, 200, {"length": length, "sha256": digest.hexdigest()})


async def seen(scope, receive, send):
    """What the app is told about the request."""
    headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
    await answer(send, 200, {"scheme": scope["scheme"], "path": scope["path"], "headers": headers})


async def moved(scope, receive, send):
    """Sends the visitor on to an address with the name that the app believes to have."""
    host = dict(scope["headers"])[b"host"]
    headers = [(b"location", b"http://" + host + b"/seen")]
    await send({"type": "http.response.start", "status": 302, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def answer(send, status, body):
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


HANDLERS = {"/events": source, "/emit": emit, "/upload": upload, "/seen": seen, "/moved": moved}
