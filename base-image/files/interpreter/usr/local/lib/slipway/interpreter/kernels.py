"""The contexts of a sandbox: Python kernels that keep their variables from one request to the next.

usage: kernels.py SOCKET READY_FD

slipway-interpreter connects to SOCKET, sends a line with the verb and its directory, then a JSON document, and reads
the reply: a line with the status, then lines as E2B's code interpreter prints them. READY_FD gets a byte when SOCKET
takes connections. When a client leaves, its code is interrupted.
"""

import asyncio
import json
import os
import select
import sys
import time
import uuid
from dataclasses import dataclass, field

from jupyter_client import AsyncKernelManager

CONTEXTS_MAX = 16
REQUEST_MAX_BYTES = 8 << 20
# A piece of output that is larger is replaced by an error.
OUTPUT_MAX_BYTES = 32 << 20
KERNEL_START_MAX_S = 60
# How often a silent kernel is asked whether it is alive.
ALIVE_CHECK_S = 1
DEFAULT = "default"
DIRECTORY = os.path.dirname(sys.argv[1])
MODULES = os.path.dirname(os.path.abspath(__file__))
# The names of E2B's results, by MIME type.
FORMATS = {
    "text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg", "image/png": "png",
    "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex", "application/json": "json",
    "application/javascript": "javascript",
}


class Refused(Exception):
    """A request that is answered with a status and a message."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


@dataclass
class Context:
    id: str
    cwd: str
    manager: AsyncKernelManager
    client: object = None
    # One piece of code at a time.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def view(self):
        return {"id": self.id, "language": "python", "cwd": self.cwd}

    async def start(self):
        await self.manager.start_kernel(cwd=self.cwd, env=os.environ | {"PYTHONPATH": MODULES})
        await self.connect()

    async def connect(self):
        self.client = self.manager.client()
        self.client.start_channels()
        try:
            await self.client.wait_for_ready(timeout=KERNEL_START_MAX_S)
        except RuntimeError as error:
            raise Refused(500, f"the kernel does not start: {error}") from error

    async def restart(self):
        await self.manager.interrupt_kernel()
        async with self.turn:
            self.client.stop_channels()
            await self.manager.restart_kernel(now=True)
            await self.connect()

    async def stop(self):
        self.client.stop_channels()
        await self.manager.shutdown_kernel(now=True)

    async def run(self, code, variables):
        """Runs code, with these variables in its environment; yields what it prints and returns."""
        async with self.turn:
            if variables:
                await self.silently(f"__import__('slipway_environment').push({json.dumps(variables)!r})")
            try:
                async for output in self.outputs(self.client.execute(code, stop_on_error=False)):
                    yield output
            finally:
                if variables and await self.manager.is_alive():
                    await self.silently("__import__('slipway_environment').pop()")

    async def silently(self, code):
        request = self.client.execute(code, silent=True, store_history=False, stop_on_error=False)
        async for _ in self.outputs(request):
            pass

    async def outputs(self, request):
        """Yields the outputs of a request of the kernel, until it is idle again."""
        try:
            while True:
                message = await self.next_message()
                if message["parent_header"].get("msg_id") != request:
                    continue
                content = message["content"]
                if message["msg_type"] == "status" and content["execution_state"] == "idle":
                    return
                if (output := translated(message["msg_type"], content)) is not None:
                    yield output
        except KernelDied:
            yield error("KernelDied", "the kernel died; its variables are lost", "")
            self.client.stop_channels()
            await self.manager.restart_kernel(now=True)
            await self.connect()
        except (asyncio.CancelledError, GeneratorExit):
            await asyncio.shield(self.manager.interrupt_kernel())
            raise

    async def next_message(self):
        while True:
            try:
                return await asyncio.wait_for(self.client.get_iopub_msg(), ALIVE_CHECK_S)
            except (asyncio.TimeoutError, TimeoutError):
                if not await self.manager.is_alive():
                    raise KernelDied from None


class KernelDied(Exception):
    pass


def translated(kind, content):
    """Returns the line for a message of the kernel, or None for one that says nothing to the client."""
    match kind:
        case "stream":
            return {"type": content["name"], "text": content["text"], "timestamp": time.time_ns()}
        case "execute_result" | "display_data":
            return result(content["data"], is_main_result=kind == "execute_result")
        case "error":
            return error(content["ename"], content["evalue"], "\n".join(content["traceback"]))
        case "execute_input":
            return {"type": "number_of_executions", "execution_count": content["execution_count"]}
        case _:
            return None


def result(data, is_main_result):
    found = {"type": "result", "is_main_result": is_main_result, "extra": {}}
    for mime, value in data.items():
        if mime in FORMATS:
            found[FORMATS[mime]] = value
        else:
            found["extra"][mime] = value
    return found


def error(name, value, traceback):
    return {"type": "error", "name": name, "value": value, "traceback": traceback}


class Contexts:
    """All contexts, the default one among them; it is made when it is first used."""

    def __init__(self):
        self.by_id = {}
        self.making = asyncio.Lock()

    async def create(self, cwd, id=None):
        async with self.making:
            if id is not None and id in self.by_id:
                return self.by_id[id]
            if len(self.by_id) >= CONTEXTS_MAX:
                raise Refused(429, f"a sandbox has {CONTEXTS_MAX} contexts at most; remove one")
            if not os.path.isdir(cwd):
                raise Refused(400, f"cwd: no directory {cwd}")
            context = Context(id or str(uuid.uuid4()), cwd, kernel_manager())
            try:
                await context.start()
            except BaseException:
                if await context.manager.is_alive():
                    await context.stop()
                raise
            self.by_id[context.id] = context
            return context

    def get(self, id):
        if not isinstance(id, str) or id not in self.by_id:
            raise Refused(404, f"no context {id!r}")
        return self.by_id[id]

    async def chosen(self, request, cwd):
        """Returns the context that a request names, or the default one."""
        id = request.get("context_id")
        if id is None or id == DEFAULT:
            check_language(request)
            return await self.create(cwd, DEFAULT)
        return self.get(id)

    async def remove(self, id):
        context = self.get(id)
        del self.by_id[id]
        await context.stop()


def kernel_manager():
    """Returns the manager of a kernel that listens on sockets in files: ports would look like those of an app."""
    return AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{DIRECTORY}/{uuid.uuid4().hex[:12]}")


def check_language(request):
    language = request.get("language") or "python"
    if language != "python":
        raise Refused(400, f"language: this image runs python, not {language!r}")


class Connection:
    """One request and its reply."""

    def __init__(self, contexts, reader, writer):
        self.contexts, self.reader, self.writer = contexts, reader, writer

    async def serve(self):
        try:
            await self.answer()
        except Refused as refused:
            self.write({"status": refused.status, "message": str(refused)})
        await self.writer.drain()

    async def answer(self):
        verb, cwd = (await self.reader.readline()).decode().rstrip("\n").split(" ", 1)
        request = parse(await self.reader.read())
        match verb:
            case "execute":
                await self.execute(request, cwd)
            case "create":
                check_language(request)
                context = await self.contexts.create(request.get("cwd") or cwd)
                self.reply(context.view())
            case "list":
                self.reply([context.view() for context in self.contexts.by_id.values()])
            case "remove":
                await self.contexts.remove(request.get("id"))
                self.reply(None)
            case "restart":
                await self.contexts.get(request.get("id")).restart()
                self.reply(None)
            case _:
                raise Refused(400, f"unknown verb {verb}")

    async def execute(self, request, cwd):
        code, variables = request.get("code"), request.get("env_vars") or {}
        if not isinstance(code, str):
            raise Refused(400, "code: must be text")
        if not isinstance(variables, dict) or not all(isinstance(value, str) for value in variables.values()):
            raise Refused(400, "env_vars: must be texts by name")
        context = await self.contexts.chosen(request, cwd)
        self.write({"status": 200})
        async for output in context.run(code, variables):
            self.write(output)
            await self.writer.drain()
        self.write({"type": "end_of_execution"})

    def reply(self, document):
        self.write({"status": 200})
        self.write(document)

    def write(self, document):
        line = json.dumps(document).encode()
        if len(line) > OUTPUT_MAX_BYTES:
            line = json.dumps(error("OutputTooLarge", f"an output of {len(line)} bytes was left out", "")).encode()
        self.writer.write(line + b"\n")


def parse(body):
    if len(body) > REQUEST_MAX_BYTES:
        raise Refused(413, f"a request has {REQUEST_MAX_BYTES} bytes at most")
    try:
        request = json.loads(body or b"{}")
    except ValueError as error:
        raise Refused(400, f"not JSON: {error}") from error
    if not isinstance(request, dict):
        raise Refused(400, "must be an object")
    return request


async def serve_until_gone(contexts, reader, writer):
    """Serves a connection; ends what runs for it when the client leaves."""
    serving = asyncio.ensure_future(Connection(contexts, reader, writer).serve())
    leaving = asyncio.ensure_future(closed_by_peer(writer))
    try:
        await asyncio.wait({serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        serving.cancel()
        await asyncio.gather(serving, leaving, return_exceptions=True)
        writer.close()


async def closed_by_peer(writer):
    """Returns when the client has closed its side for reading, too: a half-closed one waits for its reply."""
    descriptor = os.dup(writer.get_extra_info("socket").fileno())
    with HangUp(descriptor) as gone:
        await gone.wait()


class HangUp:
    """An event that is set when the peer of a socket hangs up."""

    def __init__(self, descriptor):
        self.descriptor, self.event = descriptor, asyncio.Event()
        # Only EPOLLHUP: it is always reported, and end of file on reading is not what is asked for.
        self.epoll = select.epoll()
        self.epoll.register(descriptor, select.EPOLLHUP)

    def __enter__(self):
        asyncio.get_running_loop().add_reader(self.epoll.fileno(), self.event.set)
        return self.event

    def __exit__(self, *_):
        asyncio.get_running_loop().remove_reader(self.epoll.fileno())
        self.epoll.close()
        os.close(self.descriptor)


async def main(path, ready):
    contexts = Contexts()
    if os.path.exists(path):
        os.unlink(path)
    server = await asyncio.start_unix_server(
        lambda reader, writer: serve_until_gone(contexts, reader, writer), path, limit=REQUEST_MAX_BYTES)
    os.write(ready, b"1")
    os.close(ready)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
