"""Everything that the asynchronous client does: sandboxes, commands, sessions, files, metrics, endpoints."""

import asyncio
import io
from datetime import timedelta

from opensandbox import Sandbox, SandboxManager
from opensandbox.config import ConnectionConfig
from opensandbox.exceptions import SandboxApiException, SandboxException
from opensandbox.models.execd import ExecutionHandlers, RunCommandOpts
from opensandbox.models.filesystem import (
    ContentReplaceEntry,
    DirectoryListEntry,
    MoveEntry,
    SearchEntry,
    SetPermissionEntry,
    WriteEntry,
)
from opensandbox.models.sandboxes import SandboxFilter

RESOURCE = {"cpu": "1", "memory": "512Mi"}


def texts(messages):
    return "".join(message.text for message in messages)


async def refused(status, awaitable):
    try:
        await awaitable
    except SandboxApiException as error:
        assert error.status_code == status, (status, error, error.status_code)
        return error
    raise AssertionError(f"expected {status}")


async def commands(sandbox):
    ran = await sandbox.commands.run("echo out; echo err >&2; pwd")
    assert texts(ran.logs.stdout) == "out\n/home/sandbox/workspace/app\n", ran
    assert texts(ran.logs.stderr) == "err\n" and ran.exit_code == 0 and ran.complete, ran
    ran = await sandbox.commands.run(["sh", "-c", "exit $0", "3"])
    assert ran.exit_code == 3 and ran.error.value == "3", ran
    ran = await sandbox.commands.run(["no-such-program"])
    assert ran.exit_code == 127, ran
    opts = RunCommandOpts(working_directory="/tmp", envs={"A": "b c"}, timeout=timedelta(seconds=60), uid=1000)
    ran = await sandbox.commands.run("pwd; echo $A; id -un", opts=opts)
    assert texts(ran.logs.stdout) == "/tmp\nb c\nsandbox\n", ran
    ran = await sandbox.commands.run("sleep 600", opts=RunCommandOpts(timeout=timedelta(seconds=0.2)))
    assert ran.exit_code == 124, ran
    await refused(403, sandbox.commands.run("id", opts=RunCommandOpts(uid=0)))

    await sandbox.commands.set_env("KEPT", "it's $HOME")
    ran = await sandbox.commands.run("printf %s \"$KEPT\"")
    assert texts(ran.logs.stdout).startswith("it's "), ran
    await sandbox.commands.set_env("PLAIN", "a $HOME")
    assert texts((await sandbox.commands.run(["printenv", "PLAIN"])).logs.stdout) == "a $HOME\n"

    # Output comes while the command runs: it waits for what the handler of its output writes.
    seen = []

    async def on_stdout(message):
        seen.append(message.text)
        await sandbox.files.write_file("/tmp/go", "go")

    handlers = ExecutionHandlers(on_stdout=on_stdout)
    ran = await sandbox.commands.run("echo ready; until [ -e /tmp/go ]; do :; done; echo über", handlers=handlers)
    assert "".join(seen) == "ready\nüber\n" and ran.exit_code == 0, (seen, ran)


async def background(sandbox):
    opts = RunCommandOpts(background=True)
    ran = await sandbox.commands.run("echo one; until [ -e /tmp/two ]; do :; done; echo two; exit 4", opts=opts)
    status = await sandbox.commands.get_command_status(ran.id)
    assert status.running and status.exit_code is None and "echo one" in status.content, status
    logs = await sandbox.commands.get_background_command_logs(ran.id)
    while logs.content != "one\n":
        logs = await sandbox.commands.get_background_command_logs(ran.id)
    await sandbox.files.write_file("/tmp/two", "")
    while (await sandbox.commands.get_command_status(ran.id)).running:
        pass
    more = await sandbox.commands.get_background_command_logs(ran.id, cursor=logs.cursor)
    assert more.content == "two\n", more
    status = await sandbox.commands.get_command_status(ran.id)
    assert status.exit_code == 4 and status.finished_at >= status.started_at, status

    ran = await sandbox.commands.run("sleep 600", opts=opts)
    await sandbox.commands.interrupt(ran.id)
    while (await sandbox.commands.get_command_status(ran.id)).running:
        pass
    assert (await sandbox.commands.get_command_status(ran.id)).exit_code != 0
    await refused(404, sandbox.commands.get_command_status("unknown"))


async def sessions(sandbox):
    session = await sandbox.commands.create_session(working_directory="/tmp")
    ran = await sandbox.commands.run_in_session(session, "export A=kept; mkdir -p sub; cd sub")
    assert ran.exit_code == 0, ran
    ran = await sandbox.commands.run_in_session(session, "pwd; echo $A; exit 5")
    assert texts(ran.logs.stdout) == "/tmp/sub\nkept\n" and ran.exit_code == 5, ran
    ran = await sandbox.commands.run_in_session(session, "pwd", working_directory="/workspace")
    assert texts(ran.logs.stdout) == "/home/sandbox/workspace/app\n", ran
    await sandbox.commands.delete_session(session)
    await refused(404, sandbox.commands.run_in_session(session, "pwd"))


async def files_in(sandbox, top):
    files = sandbox.files
    await files.write_files(
        [
            WriteEntry(path=f"{top}/a.txt", data="hello hello\n", mode=644),
            WriteEntry(path=f"{top}/sub/ü b.bin", data=bytes(range(256)) * 1000, mode=600),
            WriteEntry(path=f"{top}/stream", data=io.BytesIO(b"streamed")),
        ]
    )
    assert await files.read_file(f"{top}/a.txt") == "hello hello\n"
    assert await files.read_bytes(f"{top}/sub/ü b.bin") == bytes(range(256)) * 1000
    assert await files.read_bytes(f"{top}/sub/ü b.bin", range_header="bytes=254-257") == b"\xfe\xff\x00\x01"
    streamed = b"".join([chunk async for chunk in await files.read_bytes_stream(f"{top}/sub/ü b.bin")])
    assert len(streamed) == 256_000, len(streamed)
    await files.write_file(f"{top}/lines", "1\n2\n3\n4\n")
    assert await files.read_file(f"{top}/lines", offset=2, limit=2) == "2\n3\n"

    info = (await files.get_file_info([f"{top}/a.txt"]))[f"{top}/a.txt"]
    assert (info.mode, info.size, info.owner, info.entry_type) == (644, 12, "sandbox", "file"), info
    await files.set_permissions([SetPermissionEntry(path=f"{top}/a.txt", mode=640)])
    replaced = await files.replace_contents_detailed(
        [ContentReplaceEntry(path=f"{top}/a.txt", old_content="hello", new_content="bye")]
    )
    assert [(entry.path, entry.replaced_count) for entry in replaced] == [(f"{top}/a.txt", 2)], replaced
    assert await files.read_file(f"{top}/a.txt") == "bye bye\n"
    assert (await files.get_file_info([f"{top}/a.txt"]))[f"{top}/a.txt"].mode == 640

    await files.create_directories([WriteEntry(path=f"{top}/made/deep", mode=750)])
    await files.move_files([MoveEntry(src=f"{top}/a.txt", dest=f"{top}/made/moved.txt")])
    names = [entry.path for entry in await files.list_directory(DirectoryListEntry(path=f"{top}/made"))]
    assert [name.rsplit("/", 1)[1] for name in names] == ["deep", "moved.txt"], names
    deep = await files.list_directory(DirectoryListEntry(path=top, depth=2))
    assert {"file", "directory"} == {entry.entry_type for entry in deep} and len(deep) == 7, deep
    found = await files.search(SearchEntry(path=top, pattern="*.txt"))
    assert [entry.path.rsplit("/", 1)[1] for entry in found] == ["moved.txt"], found
    await files.delete_files([f"{top}/made/moved.txt"])
    await files.delete_directories([f"{top}/made"])
    await refused(404, files.read_file(f"{top}/made/moved.txt"))
    await refused(404, files.get_file_info([f"{top}/gone"]))
    await refused(404, files.delete_files([f"{top}/gone"]))
    await refused(403, files.write_file(f"{top}/owned", "", owner="root"))


async def lifecycle(config):
    sandbox = await Sandbox.create(
        "host",
        connection_config=config,
        timeout=timedelta(minutes=10),
        env={"GREETING": "hello"},
        metadata={"job": "tests & more"},
        resource=RESOURCE,
        entrypoint=["sh", "-c", "echo $GREETING > started; exec sleep 600"],
    )
    info = await sandbox.get_info()
    assert info.status.state == "Running" and info.metadata == {"job": "tests & more"}, info
    assert info.entrypoint[0] == "sh" and info.expires_at, info
    started = await sandbox.commands.run("until [ -s started ]; do :; done; cat started")
    assert texts(started.logs.stdout) == "hello\n", started

    manager = await SandboxManager.create(connection_config=config)
    wanted = SandboxFilter(metadata={"job": "tests & more"}, states=["Running"])
    listed = await manager.list_sandbox_infos(wanted)
    assert [item.id for item in listed.sandbox_infos] == [sandbox.id] and listed.pagination.total_items == 1, listed
    listed = await manager.list_sandbox_infos(SandboxFilter(metadata={"job": "other"}))
    assert listed.sandbox_infos == [], listed
    patched = await sandbox.patch_metadata({"job": None, "more": "x"})
    assert patched.metadata == {"more": "x"}, patched

    renewed = await sandbox.renew(timedelta(hours=1))
    assert renewed.expires_at > info.expires_at, renewed
    metrics = await sandbox.get_metrics()
    assert metrics.memory_total_in_mib == 512 and 0 < metrics.memory_used_in_mib < 512, metrics
    endpoint = await sandbox.get_endpoint(8000)
    assert "8000" in endpoint.endpoint and sandbox.id in endpoint.endpoint, endpoint

    await sandbox.pause()
    assert (await sandbox.get_info()).status.state == "Paused"
    assert not await sandbox.is_healthy()
    sandbox = await Sandbox.resume(sandbox.id, connection_config=config)
    assert (await sandbox.get_info()).status.state == "Running"
    again = await Sandbox.connect(sandbox.id, connection_config=config)
    assert (await again.commands.run("cat started")).exit_code == 0
    await manager.close()
    return sandbox


async def main():
    for config in [ConnectionConfig(), ConnectionConfig(use_server_proxy=True)]:
        sandbox = await lifecycle(config)
        await files_in(sandbox, "/workspace/tree")
        await files_in(sandbox, "/tmp/tree")
    await commands(sandbox)
    await background(sandbox)
    await sessions(sandbox)

    manager = await SandboxManager.create(connection_config=ConnectionConfig())
    left = await manager.list_sandbox_infos(SandboxFilter())
    for item in left.sandbox_infos:
        await manager.kill_sandbox(item.id)
    await refused(404, sandbox.get_info())
    await refused(404, sandbox.kill())
    bad = ConnectionConfig(api_key="wrong")
    await refused(401, Sandbox.create("host", connection_config=bad, resource=RESOURCE))
    await refused(400, Sandbox.create("host", resource={"gpu": "1"}))
    print("done")


asyncio.run(main())
