"""Uses every tool and the resources, as a model would."""

import asyncio
import base64
import sys

import anyio
from connect import Steps, connect, text
from mcp.shared.exceptions import MCPError

TOOLS = """create_sandbox list_sandboxes get_sandbox stop_sandbox resume_sandbox destroy_sandbox exec read_file
list_files search_files write_file edit_file preview_url create_preview_link logs create_snapshot list_snapshots
restore_snapshot fork_snapshot run_task watch_task get_task list_tasks cancel_task""".split()
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
# Of bytes that are not text.
BINARY = bytes(range(256))
# A bound on hanging.
PATIENCE_S = 60
MANIFEST = "version: 1\nservices:\n  web:\n    command: echo serving; exec sleep 1000\n"


async def sandboxes(steps):
    made = await steps.call("create_sandbox", name="mcp", ports=[3000], metadata={"for": "a test"})
    assert made["status"] == "running" and "running" in steps.said(), (made, steps.progress)
    sandbox = made["id"]
    listed = await steps.call("list_sandboxes", status="running")
    assert [item["id"] for item in listed["items"]] == [sandbox], listed
    assert (await steps.call("get_sandbox", sandbox=sandbox))["name"] == "mcp"
    preview = await steps.call("preview_url", sandbox=sandbox, port=8000)
    assert sandbox in preview["url"] and "8000" in preview["url"], preview
    link = await steps.call("create_preview_link", sandbox=sandbox, port=3000, path="/x", ttl="1h")
    assert "/x?slipway_pass=" in link["url"], link
    return sandbox


async def commands(steps, sandbox):
    ran = await steps.call("exec", sandbox=sandbox, command="cat; echo $A >&2; exit 3", stdin="in\n", env={"A": "err"})
    assert (ran["exit_code"], ran["stdout"], ran["stderr"]) == (3, "in\n", "err\n"), ran
    assert sorted(steps.said().split()) == ["err", "in"], steps.progress
    ran = await steps.call("exec", sandbox=sandbox, command="sleep 1000", timeout_s=0.2, fails=True)
    assert "time was up" in ran, ran
    # A text that is longer than what a model gets.
    ran = await steps.call("exec", sandbox=sandbox, command="seq 1 100000")
    assert ran["truncated"] and ran["stdout"].startswith("1\n2\n") and ran["stdout"].endswith("99999\n100000\n")
    assert steps.said() == "".join(f"{n}\n" for n in range(1, 100_001)), "progress has all of it"
    line = "echo begun; while [ ! -s go ]; do sleep 0.05; done; cat go"
    started = await steps.call("exec", sandbox=sandbox, command=line, background=True)
    log = {"cursor": 0, "output": "", "ended": False}
    await steps.call("write_file", sandbox=sandbox, path="workspace/app/go", content="gone\n")
    with anyio.fail_after(PATIENCE_S):
        seen = ""
        while not log["ended"]:
            log = await steps.call("logs", sandbox=sandbox, exec_id=started["exec_id"], after=log["cursor"])
            seen += log["output"]
    assert seen == "begun\ngone\n", seen


async def files(steps, sandbox):
    path = "workspace/app/src/main.txt"
    written = await steps.call("write_file", sandbox=sandbox, path=path, content="one\ntwo\nöne\n", mode="755")
    assert (written["size"], written["mode"]) == (13, "0755"), written
    told = await steps.call("write_file", sandbox=sandbox, path=path, content="", create_only=True, fails=True)
    assert "exists already" in told, told
    told = await steps.call("edit_file", sandbox=sandbox, path=path, old_text="ne", new_text="x", fails=True)
    assert "occurs 2 times" in told, told
    edited = await steps.call("edit_file", sandbox=sandbox, path=path, old_text="two\nö", new_text="2\nO")
    assert edited["lines"] == [2], edited
    read = await steps.call("read_file", sandbox=sandbox, path=path)
    assert (read["content"], read["encoding"]) == ("one\n2\nOne\n", "utf-8"), read
    part = await steps.call("read_file", sandbox=sandbox, path=path, offset=4, max_bytes=2)
    assert (part["content"], part["next_offset"]) == ("2\n", 6), part
    encoded = base64.b64encode(BINARY).decode()
    await steps.call("write_file", sandbox=sandbox, path="bytes", content=encoded, encoding="base64")
    assert (await steps.call("read_file", sandbox=sandbox, path="bytes"))["content"] == encoded
    pixel = base64.b64encode(PIXEL).decode()
    await steps.call("write_file", sandbox=sandbox, path="a.png", content=pixel, encoding="base64")
    shown = await steps.client.call_tool("read_file", {"sandbox": sandbox, "path": "a.png"})
    assert [part.type for part in shown.content] == ["text", "image"] and shown.content[1].data == pixel, shown
    listed = await steps.call("list_files", sandbox=sandbox, recursive=True)
    assert path in [item["path"] for item in listed["items"]], listed
    found = await steps.call("search_files", sandbox=sandbox, name="*.txt", content="^one", ignore_case=True)
    assert [(item["path"], item["line"]) for item in found["items"]] == [(path, 1), (path, 3)], found
    for outside in ("/etc/passwd", "../../etc/passwd"):
        told = await steps.call("read_file", sandbox=sandbox, path=outside, fails=True)
        assert "outside_workspace" in told or "invalid_request" in told, told
    told = await steps.call("read_file", sandbox=sandbox, path="nothing", fails=True)
    assert "not_found" in told, told


async def services(steps, sandbox):
    await steps.call("write_file", sandbox=sandbox, path="workspace/app/sandbox.yaml", content=MANIFEST)
    with anyio.fail_after(PATIENCE_S):
        while True:
            result = await steps.client.call_tool("logs", {"sandbox": sandbox, "service": "web"})
            if not result.is_error and "serving\n" in result.structured_content["output"]:
                return
            await anyio.sleep(0.05)


async def snapshots(steps, sandbox):
    snapshot = await steps.call("create_snapshot", sandbox=sandbox, name="before")
    assert [item["id"] for item in (await steps.call("list_snapshots", sandbox=sandbox))["items"]] == [snapshot["id"]]
    await steps.call("write_file", sandbox=sandbox, path="later", content="x")
    await steps.call("restore_snapshot", snapshot=snapshot["id"])
    told = await steps.call("read_file", sandbox=sandbox, path="later", fails=True)
    assert "not_found" in told, told
    fork = await steps.call("fork_snapshot", snapshot=snapshot["id"], name="fork")
    assert fork["status"] == "running" and fork["id"] != sandbox, fork
    assert (await steps.call("read_file", sandbox=fork["id"], path="bytes"))["size"] == len(BINARY)
    assert (await steps.call("destroy_sandbox", sandbox=fork["id"]))["status"] == "destroyed"


async def tasks(steps, sandbox):
    agent = ["sh", "-c", "cat; echo; echo x > made.txt; echo done"]
    task = await steps.call("run_task", sandbox=sandbox, prompt="make a file", agent="command", command=agent)
    assert task["status"] == "succeeded" and "make a file" in steps.said(), (task, steps.progress)
    assert task["result"]["files_changed"]["added"] == 1, task
    waiting = ["sh", "-c", "echo waits; exec sleep 1000"]
    second = await steps.call("run_task", sandbox=sandbox, prompt="p", command=waiting, background=True)
    assert (await steps.call("get_task", sandbox=sandbox, task=task["id"]))["status"] == "succeeded"
    names = [item["id"] for item in (await steps.call("list_tasks", sandbox=sandbox))["items"]]
    assert names == [second["id"], task["id"]], names
    async with anyio.create_task_group() as group:
        ended = {}

        async def watch():
            ended["text"] = await Steps(steps.client).call("watch_task", sandbox=sandbox, task=second["id"], fails=True)

        group.start_soon(watch)
        await Steps(steps.client).call("cancel_task", sandbox=sandbox, task=second["id"])
    assert "cancelled" in ended["text"], ended


async def cancellation(steps, sandbox):
    """A command whose call is cancelled ends."""
    with anyio.CancelScope() as scope:

        async def on_progress(_progress, _total, message):
            assert message == "begun\n", message
            scope.cancel()

        line = "echo begun; exec -a to-be-cancelled sleep 1000"
        await steps.client.call_tool("exec", {"sandbox": sandbox, "command": f"bash -c '{line}'"}, progress_callback=on_progress)
    assert scope.cancelled_caught
    look = "! cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -q '^to-be-cancelled'"
    with anyio.fail_after(PATIENCE_S):
        while (await steps.call("exec", sandbox=sandbox, command=look))["exit_code"] != 0:
            await anyio.sleep(0.05)


async def resources(steps, sandbox):
    client = steps.client
    listed = await client.list_resources()
    uris = [str(resource.uri) for resource in listed.resources]
    top = f"slipway://{sandbox}"
    assert f"{top}/files/" in uris and f"{top}/files/workspace/app/sandbox.yaml" in uris, uris
    outputs = [uri for uri in uris if uri.startswith(f"{top}/execs/")]
    assert outputs and (await client.read_resource(outputs[0])).contents[0].mime_type == "text/plain"
    templates = [template.uri_template for template in (await client.list_resource_templates()).resource_templates]
    assert len(templates) == 4 and all(template.startswith("slipway://{sandbox}/") for template in templates), templates
    read = await client.read_resource(f"{top}/files/workspace/app/src/main.txt")
    assert read.contents[0].text == "one\n2\nOne\n", read
    read = await client.read_resource(f"{top}/files/bytes")
    assert base64.b64decode(read.contents[0].blob) == BINARY, read
    assert "workspace/" in (await client.read_resource(f"{top}/files/")).contents[0].text
    assert "main.txt" in (await client.read_resource(f"{top}/files/workspace/app/src")).contents[0].text
    assert "serving" in (await client.read_resource(f"{top}/services/web/logs")).contents[0].text
    await steps.call("exec", sandbox=sandbox, command="head -c 5000000 /dev/zero > ~/large")
    for uri in (f"{top}/files/nothing", f"{top}/files/large", f"{top}/files/%2E%2E/%2E%2E/etc/passwd", "slipway://x/files/a"):
        try:
            raise AssertionError(f"{uri}: {await client.read_resource(uri)}")
        except MCPError as error:
            assert error.code in (-32002, -32603), error


async def wrong_calls(steps, sandbox):
    for name, arguments in [
        ("exec", {"sandbox": sandbox}),
        ("exec", {"sandbox": sandbox, "command": "true", "shell": "true"}),
        ("exec", {"sandbox": "../x", "command": "true"}),
        ("logs", {"sandbox": sandbox}),
        ("search_files", {"sandbox": sandbox}),
        ("write_file", {"sandbox": sandbox, "path": "a", "content": "!", "encoding": "base64"}),
        ("get_sandbox", {"sandbox": "01jb9xyzabcdefghjkmnpqrstv"}),
    ]:
        await steps.call(name, fails=True, **arguments)
    try:
        raise AssertionError(await steps.client.call_tool("rm_rf", {}))
    except MCPError as error:
        assert error.code == -32602, error


async def main():
    async with connect(sys.argv[1:]) as client:
        assert client.protocol_version == "2025-11-25", client.protocol_version
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        steps = Steps(client)
        sandbox = await sandboxes(steps)
        await commands(steps, sandbox)
        await files(steps, sandbox)
        await services(steps, sandbox)
        await resources(steps, sandbox)
        await snapshots(steps, sandbox)
        await tasks(steps, sandbox)
        await cancellation(steps, sandbox)
        await wrong_calls(steps, sandbox)
        assert (await steps.call("stop_sandbox", sandbox=sandbox))["status"] == "stopped"
        assert (await steps.call("resume_sandbox", sandbox=sandbox))["status"] == "running"
        assert (await steps.call("destroy_sandbox", sandbox=sandbox))["status"] == "destroyed"


asyncio.run(main())
