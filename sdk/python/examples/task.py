"""Submits a task and follows its events to the end. The agent `command` runs any program; name a coding agent instead."""

import asyncio

from slipway import AsyncSlipway


async def main() -> None:
    async with AsyncSlipway() as slipway:
        sandbox = await slipway.sandboxes.ensure(scope={"kind": "conversation", "key": "example-py"})
        task = await sandbox.tasks.submit("write a page", command=["sh", "-c", "cat >page.txt; echo wrote it"])
        async for event in task.events():
            if event["kind"] == "status":
                print("phase", event["phase"])
            elif event["kind"] == "message":
                print("agent:", event["text"])
            elif event["kind"] == "done":
                print("done:", event["result"]["status"])
        async for file in task.changes():
            print(file["kind"], file["path"])
        await task.revert()
        await sandbox.delete()


asyncio.run(main())
