"""Everything that the session of the Cloudflare client does, without an agent: commands, files, archives, terminals."""

import asyncio
import io
import os
import pathlib
import tarfile
import tempfile

from agents.extensions.sandbox.cloudflare import CloudflareSandboxClient, CloudflareSandboxClientOptions
from agents.sandbox import LocalSnapshotSpec, Manifest
from agents.sandbox.entries import File
from agents.sandbox.errors import (
    InvalidManifestPathError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.manifest import Environment

OPTIONS = CloudflareSandboxClientOptions(worker_url=os.environ["BRIDGE_URL"])


async def prints(session, *command, **options):
    result = await session.exec(*command, **options)
    assert result.exit_code == 0, (command, result)
    return result.stdout.decode()


async def commands(session):
    assert await prints(session, "pwd") == "/workspace\n"
    result = await session.exec("echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 3), result
    result = await session.exec("head -c 300000 /dev/urandom | tee all.bin")
    assert len(result.stdout) == 300000
    assert (await session.read("all.bin")).read() == result.stdout, "every byte, as it was"
    result = await session.exec("printf 'a\\377\\000b'")
    assert result.stdout == b"a\xff\x00b", result
    result = await session.exec("no-such-program", shell=False)
    assert result.exit_code == 127 and b"no-such-program" in result.stderr, result
    result = await session.exec("kill -9 $$")
    assert result.exit_code == 137, result
    # Longer than the client waits beyond it: the sandbox ends the command.
    result = await session.exec("echo before; sleep 600", timeout=1)
    assert (result.stdout, result.exit_code) == (b"before\n", 124), result
    assert await prints(session, "id -un") == "sandbox\n"
    assert await prints(session, "id", "-un", shell=False, user="sandbox") == "sandbox\n"
    try:
        await session.exec("id", user="root")
        raise AssertionError("root is refused")
    except Exception as error:
        assert "not as \"root\"" in str(error), error


async def files(session):
    assert (await session.read("from/manifest.txt")).read() == b"of the manifest"
    await session.write("/workspace/x", io.BytesIO(b"written\n"))
    assert await prints(session, "cat /workspace/x") == "written\n"
    await prints(session, "mkdir -p 'd/e f'; echo made > 'd/e f/\u00fc?#%.txt'")
    assert (await session.read("d/e f/\u00fc?#%.txt")).read() == b"made\n"
    names = {entry.path.removeprefix("/workspace/") for entry in await session.ls("/workspace")}
    assert {"x", "d", "from"} <= names, names
    assert "/workspace/x" in await prints(session, "find", "/workspace", "-name", "x", shell=False)
    await session.mv("x", "y")
    await session.rm("y")
    try:
        await session.read("y")
        raise AssertionError("it is gone")
    except WorkspaceReadNotFoundError:
        pass
    await prints(session, "ln -s /etc/passwd out")
    for escape in ["out", "../../etc/passwd", "/etc/passwd"]:
        try:
            await session.read(escape)
            raise AssertionError(f"{escape} leads out")
        except (InvalidManifestPathError, WorkspaceArchiveReadError):
            pass
    await prints(session, "rm out")


async def archives(client, session):
    await prints(session, "mkdir -p keep skip; echo k > keep/k; echo s > skip/s; ln -s k keep/link; chmod 755 keep/k")
    session._inner.register_persist_workspace_skip_path("skip")
    archive = (await session.persist_workspace()).read()
    names = tarfile.open(fileobj=io.BytesIO(archive)).getnames()
    assert any(name.endswith("keep/k") for name in names), names
    assert not any("skip" in name for name in names), names
    await client.delete(session)
    assert not await session.running(), "deleted"

    again = await client.create(options=OPTIONS)
    try:
        await again.hydrate_workspace(io.BytesIO(archive))
        assert await prints(again, "cat /workspace/keep/link; stat -c %a keep/k") == "k\n755\n"
        try:
            await again._inner._hydrate_workspace_via_http(io.BytesIO(b"not an archive"))
            raise AssertionError("not an archive")
        except WorkspaceArchiveWriteError:
            pass
    finally:
        await client.delete(again)


async def resumed_snapshot(client):
    """The workspace is saved when the session stops, and comes back after the sandbox is gone."""
    with tempfile.TemporaryDirectory() as saved:
        snapshot = LocalSnapshotSpec(base_path=pathlib.Path(saved))
        session = await client.create(options=OPTIONS, manifest=Manifest(), snapshot=snapshot)
        await session.start()
        await prints(session, "echo kept > kept")
        await session.stop()
        state = client.deserialize_session_state(client.serialize_session_state(session.state))
        # Still running: what was added since the snapshot is cleared.
        resumed = await client.resume(state)
        await prints(resumed, "echo more > more")
        await resumed.start()
        assert await prints(resumed, "cat kept; ls more 2>/dev/null || echo gone") == "kept\ngone\n"
        await client.delete(resumed)
        # The sandbox is gone, its id is used again.
        resumed = await client.resume(state)
        assert not await resumed.running()
        await resumed.start()
        assert await resumed.running()
        assert await prints(resumed, "cat kept") == "kept\n"
        await client.delete(resumed)
        assert not await resumed.running()


async def terminals(session):
    # The shell of a terminal stays open after its command; ending it is how these commands end.
    update = await session.pty_exec_start(
        "stty size; pwd; tty >/dev/null && echo on a terminal; kill -HUP $PPID", tty=True, yield_time_s=60
    )
    text = update.output.decode()
    assert "24 80" in text and "/workspace" in text and "on a terminal" in text, text
    assert update.process_id is None and update.exit_code not in (None, 0), update

    update = await session.pty_exec_start("cat", shell=False, tty=True, yield_time_s=0.25)
    assert update.process_id is not None, update
    seen, typed = update.output.decode(), "typed-in\n"
    while "typed-in\r\ntyped-in" not in seen:
        update = await session.pty_write_stdin(session_id=update.process_id, chars=typed, yield_time_s=0.25)
        seen, typed = seen + update.output.decode(), ""
    # End of file for cat, then for the shell.
    process, seen = update.process_id, ""
    while process is not None:
        update = await session.pty_write_stdin(session_id=process, chars="\x04", yield_time_s=0.25)
        process, seen = update.process_id, seen + update.output.decode()
    assert update.exit_code == 0, (update, seen)
    await session.pty_terminate_all()


async def main():
    client = CloudflareSandboxClient()
    manifest = Manifest(entries={"from/manifest.txt": File(content=b"of the manifest")}, environment=Environment(value={"GREETING": "hello"}))
    session = await client.create(options=OPTIONS, manifest=manifest)
    await session.start()
    assert await session.running()
    assert await prints(session, "echo $GREETING") == "hello\n"
    await commands(session)
    await files(session)
    await terminals(session)
    state = client.deserialize_session_state(client.serialize_session_state(session.state))
    resumed = await client.resume(state)
    assert await prints(resumed, "cat from/manifest.txt") == "of the manifest"
    await resumed._inner._close_http()
    await archives(client, session)
    await resumed_snapshot(client)
    print("done")


asyncio.run(main())
