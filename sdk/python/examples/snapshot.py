"""Takes a snapshot, makes another sandbox of it, and restores it."""

from slipway import CommandError, Slipway

with Slipway() as slipway:
    sandbox = slipway.sandboxes.create()
    sandbox.files.write("workspace/app/data.txt", "before")
    snapshot = sandbox.snapshots.create(name="example-py")
    fork = snapshot.fork()
    try:
        fork.run("grep after data.txt", check=True)
    except CommandError as error:
        print("the fork has the files of before:", error.result.code)
    sandbox.run("echo after >data.txt")
    snapshot.restore()
    print(sandbox.files.read_text("workspace/app/data.txt"))
    snapshot.delete()
    sandbox.delete()
    fork.delete()
