"""Everything that the Python client does, against a real hostd. `kill` on standard output asks the test to kill hostd with
SIGKILL and to start it again while this program goes on; a line on standard input says that it was done."""

import json
import os
import sys
import time

import slipway as sdk
from slipway import AsyncSlipway

URL, TOKEN, OTHER_TOKEN = os.environ["SLIPWAY_URL"], os.environ["SLIPWAY_TOKEN"], os.environ["OTHER_TOKEN"]
NAME = f"sdk-{AsyncSlipway.__name__.lower()}"


def step(name):
    print("step", name, flush=True)


def ask_to_kill():
    print("kill", flush=True)


def restarted():
    # Also a kill that came late is over after it: it would hit a call that must not be repeated.
    assert sys.stdin.readline() == "restarted\n"


def numbers(last):
    return [str(number) for number in range(1, last + 1)]


def counting(last):
    return f"for i in $(seq 1 {last}); do echo $i; sleep 0.01; done"


async def first(items, wanted):
    async for item in items:
        if wanted(item):
            return item
    raise AssertionError("it never comes")


async def collect(items):
    return [item async for item in items]


async def until(look, wanted=bool):
    while True:
        found = await look()
        if wanted(found):
            return found
        time.sleep(0.02)


async def refused(call, family, code):
    try:
        await call()
    except sdk.ApiError as error:
        assert isinstance(error, family) and error.code == code, repr(error)
        assert TOKEN not in repr(vars(error)) + str(error), "the token is in an error"
        return error
    raise AssertionError("it is allowed")


async def sandboxes(slipway):
    step("sandboxes")
    sandbox = await slipway.sandboxes.create(name=NAME, ports=[3000], env={"GREETING": "hello"}, metadata={"a": "b"})
    assert sandbox.view["status"] == "running"
    assert (await slipway.sandboxes.get(sandbox.id)).view["name"] == NAME
    await first(slipway.sandboxes.list(status="running"), lambda view: view["id"] == sandbox.id)
    scope = {"kind": "conversation", "key": NAME}
    one = await slipway.sandboxes.ensure(scope=scope)
    two = await slipway.sandboxes.ensure(scope=scope)
    assert one.id == two.id
    assert (await one.delete())["status"] == "destroyed"
    assert (await sandbox.update(metadata={"c": "d"}))["metadata"] == {"c": "d"}
    assert (await sandbox.stop())["status"] == "stopped"
    assert (await sandbox.start())["status"] == "running"
    assert "busy" in await sandbox.activity()
    assert await sandbox.stats() and await slipway.quota() and await collect(slipway.agents())
    return sandbox


async def commands(slipway, sandbox):
    step("commands")
    failed = await sandbox.run("echo out; echo err >&2; exit 3")
    assert (failed.code, failed.ok, failed.stdout, failed.stderr) == (3, False, "out\n", "err\n")
    try:
        await sandbox.run("echo no >&2; exit 4", check=True)
        raise AssertionError("it is taken for a success")
    except sdk.CommandError as error:
        assert error.result.code == 4 and "no" in str(error)
    argv = ["sh", "-c", 'cat; echo "$GREETING $MORE"; pwd']
    given = await sandbox.run(argv, stdin="in ", env={"MORE": "you"}, cwd="/tmp")
    assert given.stdout == "in hello you\n/tmp\n", given
    assert (await sandbox.run("printf 'a\\377'")).stdout_bytes == b"a\xff"
    assert (await sandbox.run("sleep 60", timeout_s=0.2)).exit["kind"] == "timed_out"
    for _ in range(2):
        assert (await sandbox.run("echo once >>once.txt", id="only-once")).ok
    assert (await sandbox.run("cat once.txt")).stdout == "once\n"
    await sandbox.exec("sleep 600", id="too-late")
    try:
        await sandbox.run("sleep 600", id="too-late", call_timeout_s=0.3)
        raise AssertionError("it ends")
    except sdk.DeadlineExceededError:
        assert (await sandbox.attach_exec("too-late").wait()).exit["kind"] == "cancelled"


async def execs(slipway, sandbox):
    step("execs")
    cat = await sandbox.exec("cat", stdin_open=True)
    for piece in ("one\n", "two\n", b"three\n"):
        await cat.write(piece)
    await cat.close_stdin()
    assert b"".join([part.data async for part in cat.output()]) == b"one\ntwo\nthree\n"
    assert (await cat.wait()).ok

    typed = await sandbox.exec("cat", stdin_open=True)
    for number in numbers(60):
        if number == "20":
            ask_to_kill()
        await typed.write(f"{number} {'x' * 5000}\n")
    await typed.close_stdin()
    copied = b"".join([part.data async for part in typed.output()]).decode()
    restarted()
    assert [line.removesuffix(" " + "x" * 5000) for line in copied.splitlines()] == numbers(60)

    # Every silence is taken for the death of the connection.
    async with AsyncSlipway(URL, TOKEN, silence_s=0.5) as nervous:
        slow = await (await nervous.sandboxes.get(sandbox.id)).exec("echo one; sleep 1.5; echo two")
        assert b"".join([part.data async for part in slow.output()]) == b"one\ntwo\n"

    counted = await sandbox.exec("trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.05; done")
    ready = await first(counted.output(), lambda part: b"ready" in part.data)
    await counted.signal("INT")
    assert b"".join([part.data async for part in counted.output(after=ready.cursor)]) == b"interrupted\n"
    assert (await counted.wait()).code == 5

    long = await sandbox.exec(counting(300))
    lines, killed, cursor = b"", False, 0
    async for part in long.output():
        assert part.cursor > cursor and part.lost == 0, part
        cursor = part.cursor
        lines += part.data
        if not killed and b"50\n" in lines:
            killed = True
            ask_to_kill()
    restarted()
    assert lines.decode().split() == numbers(300)
    assert killed and (await long.wait()).ok
    await first(sandbox.execs(), lambda exec: exec["id"] == long.id)


async def files(slipway, sandbox):
    step("files")
    files = sandbox.files
    name = "workspace/app/größe & co.txt"
    written = await files.write(name, "über\n", mode="0600")
    assert written["mode"] == "0600"
    assert await files.read_text(name) == "über\n"
    await files.write(name, "more\n", append=True)
    await refused(lambda: files.write(name, "x", if_match=written["etag"]), sdk.ConflictError, "precondition_failed")
    await refused(lambda: files.write(name, "x", create=True), sdk.ConflictError, "precondition_failed")
    assert not await files.exists("workspace/app/none")
    await refused(lambda: files.read("workspace/app/none"), sdk.NotFoundError, "not_found")
    await files.mkdir("workspace/app/tree/deep")
    pair = [{"path": f"workspace/app/tree/{path}", "content": text} for path, text in (("a.txt", "needle"), ("deep/b.txt", "hay"))]
    assert await files.write_many(pair) == 2
    await files.copy("workspace/app/tree/a.txt", "workspace/app/tree/c.txt")
    await files.move("workspace/app/tree/c.txt", "workspace/app/tree/deep/c.txt")
    paths = [file["path"] async for file in files.list("workspace/app/tree", recursive=True)]
    assert sorted(paths) == [f"workspace/app/tree/{path}" for path in ("a.txt", "deep", "deep/b.txt", "deep/c.txt")], paths
    assert len((await files.search("workspace/app", content="needle"))["items"]) == 2
    await files.write(b"\xff1", "not UTF-8")
    assert await files.read(b"\xff1") == b"not UTF-8"

    watch = files.watch("workspace/app/tree", recursive=True)
    assert (await first(watch, lambda change: True)).kind == "ready"
    watch = files.watch("workspace/app/tree", recursive=True)
    async for change in watch:
        if change.kind == "ready":
            await files.write("workspace/app/tree/new.txt", "new")
        if change.kind == "created" and change.path.endswith("new.txt"):
            break

    packed = b"".join([piece async for piece in files.archive("workspace/app/tree", format="tar.gz")])
    assert (await files.unpack("workspace/copy", packed, format="tar.gz"))["files"] >= 4
    assert await files.read_text("workspace/copy/a.txt") == "needle"
    link = await files.link("GET", "workspace/copy/a.txt", ttl="1m")
    assert "signature=" in link["url"]
    await files.revoke_link(link["id"])
    await files.remove("workspace/copy", recursive=True)
    assert not await files.exists("workspace/copy")
    assert b"".join([piece async for piece in files.read_stream("workspace/app/tree/a.txt")]) == b"needle"


async def snapshots(slipway, sandbox):
    step("snapshots")
    await sandbox.files.write("workspace/state.txt", "before")
    snapshot = await sandbox.snapshots.create(name=f"before-{NAME}")
    await sandbox.files.write("workspace/state.txt", "after")
    assert (await snapshot.verify())["intact"]
    await first(sandbox.snapshots.list(), lambda view: view["id"] == snapshot.id)
    fork = await snapshot.fork(name=f"fork-{NAME}")
    assert await fork.files.read_text("workspace/state.txt") == "before"
    await fork.delete()
    await snapshot.restore()
    assert await sandbox.files.read_text("workspace/state.txt") == "before"
    await (await slipway.snapshots.get(snapshot.id)).delete()
    await refused(lambda: slipway.snapshots.get(snapshot.id), sdk.NotFoundError, "not_found")


async def services(slipway, sandbox):
    step("services")
    command = "echo serving; exec python3 -m http.server 3000"
    await sandbox.services.replace([{"name": "web", "command": command, "port": 3000}])
    ready = lambda all: [each["state"] for each in all if each["name"] == "web"] == ["ready"]  # noqa: E731
    await until(lambda: collect(sandbox.services.list()), ready)
    await first(sandbox.services.logs("web", follow=True), lambda part: b"serving" in part.data)
    assert f"{sandbox.id}-3000" in await sandbox.previews.url(3000)
    link = await sandbox.previews.link(3000, ttl="1m")
    assert "slipway_pass=" in link["url"]
    await first(sandbox.previews.links(), lambda each: each["id"] == link["id"])
    await sandbox.previews.revoke_link(link["id"])
    assert (await sandbox.services.restart("web"))["name"] == "web"
    assert (await sandbox.services.stop("web"))["name"] == "web"


async def tasks(slipway, sandbox):
    step("tasks")
    task = await sandbox.tasks.submit("count", command=["sh", "-c", f"{counting(200)}; echo made >made.txt"])
    said, seqs, done = [], [], None
    async for event in task.events():
        seqs.append(event["seq"])
        if event["kind"] == "message":
            said.append(event["text"])
            if len(said) == 50:
                ask_to_kill()
        if event["kind"] == "done":
            done = event["result"]
    restarted()
    assert said == numbers(200), said
    assert seqs == sorted(set(seqs))
    assert done["status"] == "succeeded"
    assert await task.result() == (await sandbox.tasks.get(task.id)).view["result"]
    assert [event["seq"] async for event in task.events(since=seqs[-3])] == seqs[-2:]
    assert await collect(task.events(since=seqs[-1])) == []

    assert [file["path"] async for file in task.changes()] == ["made.txt"]
    assert (await task.revert())["counts"]["deleted"] == 1
    assert not await sandbox.files.exists("workspace/app/made.txt")
    endless = await sandbox.tasks.submit(command=["sleep", "600"])
    await first(endless.events(), lambda event: event["kind"] == "status" and event["phase"] == "agent")
    await endless.cancel()
    assert (await endless.result())["status"] == "cancelled"
    await first(sandbox.tasks.list(), lambda each: each["id"] == endless.id)

    # The agent asks whether it may do something.
    with open(os.environ["TEST_AGENT"], "rb") as agent:
        await sandbox.files.write("workspace/app/acp.py", agent.read())
    tool = {"toolCallId": "c", "title": "a tool", "kind": "execute", "rawInput": {"command": "make"}}
    prompt = json.dumps([["permission", tool], ["say", "so be it"]])
    asking = await sandbox.tasks.submit(prompt, agent="asking", briefing="", permissions={"default": "ask"})
    decided = []
    async for event in asking.events(kind=["permission", "done"]):
        if event["kind"] != "permission":
            continue
        decided.append((event["state"], event["about"]["title"], event.get("by")))
        if event["state"] == "asked":
            await refused(lambda: asking.answer("p9", "allow"), sdk.NotFoundError, "not_found")
            await asking.answer(event["id"], "allow")
    assert decided == [("asked", "a tool", None), ("allowed", "a tool", "caller")], decided
    assert (await asking.result())["status"] == "succeeded"
    await refused(lambda: asking.answer("p1", "deny"), sdk.NotFoundError, "not_found")


async def terminals(slipway, sandbox):
    step("terminals")
    terminal = await sandbox.terminal(["bash", "--norc"], cols=100, rows=30, env={"PS1": ""})
    await terminal.write("stty -echo; stty size; echo mark$((40+2))\n")
    screen = b""
    async for piece in terminal.output():
        screen += piece
        if b"mark42" in screen:
            break
    assert b"30 100" in screen, screen
    await terminal.resize(90, 20)

    back = sandbox.attach_terminal(terminal.id, after=terminal.position)
    await back.write(f"{counting(200)}; stty size; exit 7\n")
    screen, killed = b"", False
    async for piece in back.output():
        screen += piece
        if not killed and b"50\r\n" in screen:
            killed = True
            ask_to_kill()
    restarted()
    lines = [line for line in screen.decode().split("\r\n") if line]
    assert lines[lines.index("1") :] == [*numbers(200), "20 90", "exit"], lines
    assert killed and (await back.wait()).code == 7


async def events(slipway, sandbox):
    step("events")
    created = await first(sandbox.events(since=0, kind="sandbox."), lambda event: event["kind"] == "sandbox.created")
    assert created["data"]["name"] == NAME
    all = slipway.events(sandbox=sandbox.id, since=created["seq"], kind=["exec.ended"])
    assert (await first(all, lambda event: True))["data"]["exit"]["kind"] == "exited"


async def errors(slipway, sandbox):
    step("errors")
    async with AsyncSlipway(URL, "slw_wrong") as wrong:
        await refused(lambda: wrong.sandboxes.get(sandbox.id), sdk.AuthenticationError, "unauthorized")
    async with AsyncSlipway(URL, OTHER_TOKEN) as other:
        foreign = await refused(lambda: other.sandboxes.get(sandbox.id), sdk.NotFoundError, "not_found")
        assert foreign.detail["missing"]["kind"] == "sandbox"
        await refused(lambda: other.sandboxes.create(ports=[0]), sdk.InvalidRequestError, "invalid_request")
        await refused(lambda: collect(other.events(sandbox=sandbox.id)), sdk.NotFoundError, "not_found")
    await refused(lambda: collect(sandbox.attach_terminal("no-such").output()), sdk.NotFoundError, "not_found")
    await slipway.secrets.put(NAME, {"value": "a secret value"})
    await first(slipway.secrets.list(), lambda secret: secret["name"] == NAME)
    await slipway.secrets.delete(NAME)
    assert TOKEN not in repr(slipway)


async def main():
    async with AsyncSlipway(URL, TOKEN) as slipway:
        sandbox = await sandboxes(slipway)
        for part in (commands, execs, files, snapshots, services, tasks, terminals, events, errors):
            await part(slipway, sandbox)
        assert (await sandbox.delete())["status"] == "destroyed"
    print("done", flush=True)
