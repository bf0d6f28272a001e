#!/usr/bin/env python3
"""About the smallest agent that speaks the Agent Client Protocol: it tells what it was told, and when its prompt is
a command it asks whether it may, and runs it."""
import json, os, subprocess, sys

asked = {}
# So that a test can count how often it was started.
with open(os.path.expanduser("~/starts"), "a") as starts:
    starts.write("x")


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(**fields):
    send(method="session/update", params={"sessionId": "s1", "update": fields})


def say(text):
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text + "\n"})


def run(command):
    ended = subprocess.run(command, shell=True, capture_output=True, text=True)
    output = [{"type": "content", "content": {"type": "text", "text": ended.stdout + ended.stderr}}]
    update(
        sessionUpdate="tool_call_update",
        toolCallId="1",
        status="completed" if ended.returncode == 0 else "failed",
        content=output,
        rawOutput={"exit_code": ended.returncode},
    )


for line in sys.stdin:
    message = json.loads(line)
    number, method = message.get("id"), message.get("method")
    if method == "initialize":
        send(id=number, result={"protocolVersion": 1, "agentCapabilities": {}})
    elif method == "session/new":
        send(id=number, result={"sessionId": "s1"})
    elif method == "session/prompt":
        texts = [block["text"] for block in message["params"]["prompt"]]
        say("told: " + " | ".join(text.splitlines()[0] for text in texts))
        say("arguments: " + " ".join(sys.argv[1:]) + ", in " + os.getcwd())
        command = texts[-1].removeprefix("run: ")
        if command == texts[-1]:
            send(id=number, result={"stopReason": "end_turn"})
            continue
        call = {"toolCallId": "1", "title": command, "kind": "execute", "rawInput": {"command": command}}
        update(sessionUpdate="tool_call", status="pending", **call)
        asked[100] = (number, command)
        options = [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        params = {"sessionId": "s1", "toolCall": call, "options": options}
        send(id=100, method="session/request_permission", params=params)
    elif number in asked:
        turn, command = asked.pop(number)
        outcome = message.get("result", {}).get("outcome", {})
        if outcome.get("optionId") == "yes":
            run(command)
        else:
            say("not allowed")
        send(id=turn, result={"stopReason": "end_turn"})
    elif number is not None:
        send(id=number, error={"code": -32601, "message": "not known"})
