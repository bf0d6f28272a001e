"""A SandboxAgent whose model is a script: it writes a file, runs it, and says what it saw.

The argument is the client of its sandbox: `cloudflare` or `e2b`.
"""

import asyncio
import json
import os
import sys

from agents import ModelResponse, RunConfig, Runner, Usage
from agents.models.interface import Model
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.entries import File
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

# The shell of a terminal outlives its command. Ending it, the command ends the call, whatever the time to wait.
END = "; kill -HUP $PPID"
COMMANDS = [
    "cat task.txt; printf 'print(6 * 7)' > answer.py" + END,
    "python3 /workspace/answer.py" + END,
]


class ScriptedModel(Model):
    """Calls the shell with each command, and then repeats the last output."""

    def __init__(self):
        self.outputs = []

    async def get_response(self, system_instructions, input, model_settings, tools, *rest, **options):
        assert {"exec_command", "write_stdin"} <= {tool.name for tool in tools}, tools
        items = [item for item in input if isinstance(item, dict)] if isinstance(input, list) else []
        self.outputs = [item["output"] for item in items if item.get("type") == "function_call_output"]
        turn = len(self.outputs)
        if turn < len(COMMANDS):
            arguments = json.dumps({"cmd": COMMANDS[turn], "yield_time_ms": 60_000})
            item = ResponseFunctionToolCall(
                type="function_call", name="exec_command", call_id=f"call-{turn}", arguments=arguments
            )
        else:
            text = ResponseOutputText(type="output_text", text=self.outputs[-1], annotations=[])
            item = ResponseOutputMessage(
                id="last", type="message", role="assistant", status="completed", content=[text]
            )
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError("the run is not streamed")


def sandbox_of(name):
    if name == "e2b":
        from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions

        return SandboxRunConfig(client=E2BSandboxClient(), options=E2BSandboxClientOptions(sandbox_type="e2b"))
    from agents.extensions.sandbox.cloudflare import CloudflareSandboxClient, CloudflareSandboxClientOptions

    options = CloudflareSandboxClientOptions(worker_url=os.environ["BRIDGE_URL"])
    return SandboxRunConfig(client=CloudflareSandboxClient(), options=options)


async def main():
    model = ScriptedModel()
    agent = SandboxAgent(
        name="worker",
        model=model,
        default_manifest=Manifest(entries={"task.txt": File(content=b"What is six times seven?\n")}),
    )
    run_config = RunConfig(sandbox=sandbox_of(sys.argv[1]), tracing_disabled=True)
    result = await Runner.run(agent, "Do the task.", run_config=run_config)
    assert "What is six times seven?" in model.outputs[0], model.outputs
    assert "42" in result.final_output, result.final_output
    print("done")


asyncio.run(main())
