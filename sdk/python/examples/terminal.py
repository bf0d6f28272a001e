"""Leaves a terminal in the middle and comes back exactly there."""

from slipway import Slipway

with Slipway() as slipway:
    sandbox = slipway.sandboxes.create()
    terminal = sandbox.terminal(["bash", "--norc"], cols=100, rows=30)
    terminal.write("echo left at $((40 + 2))\n")
    for piece in terminal.output():
        if b"42" in piece:
            break

    back = sandbox.attach_terminal(terminal.id, after=terminal.position)
    back.write("exit 3\n")
    for _ in back.output():
        pass
    print(back.wait().exit)
    sandbox.delete()
