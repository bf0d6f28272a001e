#!/usr/bin/env python3
"""A small agent that speaks the Agent Client Protocol and does what its prompt says, a JSON list of steps.

It exists to do wrong what real agents do wrong now and then. Words on its command line change what it is:
  resume, load      it can take up a session that way (`load` tells the history again)
  forgetful         it fails to
  late              it takes a moment to open a session, until the file `go` is in its home
  stays             it does not go when its input ends
  stubborn          it pays no attention to being asked to stop
  mute              it never answers the first request
Every message that it gets is a line of `acp.log` in its home.
"""
import json, os, queue, subprocess, sys, threading, time

flags = set(sys.argv[1:])
home = os.environ["HOME"]
log = open(os.path.join(home, "acp.log"), "a", buffering=1)
lock = threading.Lock()
answers = {}
cancelled = threading.Event()
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def raw(text):
    with lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def send(**message):
    raw(json.dumps({"jsonrpc": "2.0", **message}))


def update(session, **fields):
    send(method="session/update", params={"sessionId": session, "update": fields})


def say(session, text, kind="agent_message_chunk"):
    update(session, sessionUpdate=kind, content={"type": "text", "text": text})


def ask(number, method, params):
    answers[number] = queue.Queue()
    send(id=number, method=method, params=params)
    return answers[number].get()


def step(session, number, name, *rest):
    """One step; what the turn ends with, if it ends there."""
    if name == "say":
        say(session, rest[0])
    elif name == "think":
        say(session, rest[0], "agent_thought_chunk")
    elif name == "update":
        update(session, **rest[0])
    elif name == "permission":
        answer = ask(f"ask-{number}", "session/request_permission",
                     {"sessionId": session, "toolCall": rest[0], "options": OPTIONS})
        say(session, f"permission: {json.dumps(answer.get('result', answer.get('error')))}\n")
    elif name == "request":
        answer = ask(number, rest[0], {})
        say(session, f"answer: {answer['error']['code']}\n")
    elif name == "raw":
        raw(rest[0])
    elif name == "huge":
        raw(json.dumps({"jsonrpc": "2.0", "method": "x", "params": "x" * rest[0]}))
    elif name == "env":
        say(session, f"{rest[0]}={os.environ.get(rest[0], '')}\n")
    elif name == "spawn":
        # In a session and group of its own, as tool shells are.
        subprocess.Popen(rest[0], start_new_session=True, stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    elif name == "write":
        with open(rest[0], "w") as file:
            file.write(rest[1])
    elif name == "print":
        print(rest[0], file=sys.stderr, flush=True)
    elif name == "hang":
        cancelled.wait() if "stubborn" not in flags else time.sleep(1000)
        return {"result": {"stopReason": "cancelled"}}
    elif name == "stop":
        return {"result": {"stopReason": rest[0]}}
    elif name == "fail":
        return {"error": {"code": -32603, "message": "Internal error", "data": {"message": rest[0]}}}
    elif name == "exit":
        os._exit(rest[0])
    elif name == "flood":
        # Asks without reading the answers.
        time.sleep(0.1)
        for n in range(rest[0]):
            send(id="flood" + "x" * 200 + str(n), method="fs/read_text_file", params={})
        time.sleep(1000)
    return None


def prompt(number, params):
    end = None
    for n, one in enumerate(json.loads(params["prompt"][-1]["text"])):
        end = step(params["sessionId"], n, *one)
        if end or cancelled.is_set():
            break
    send(id=number, **(end or {"result": {"stopReason": "cancelled" if cancelled.is_set() else "end_turn"}}))


def opened(number, session, told):
    while "late" in flags and not os.path.exists(os.path.join(home, "go")):
        time.sleep(0.01)
    model = {"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": "a/one",
             "options": [{"value": "a/one", "name": "One"}, {"value": "a/two", "name": "Two"}]}
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "yolo", "name": "All"}]}
    send(id=number, result={**told, "modes": modes, "configOptions": [model]})
    update(session, sessionUpdate="available_commands_update", availableCommands=[])


def handle(message):
    method, number, params = message.get("method"), message.get("id"), message.get("params", {})
    if method is None:
        answers[number].put(message)
    elif method == "initialize" and "mute" not in flags:
        capabilities = {"loadSession": "load" in flags,
                        "sessionCapabilities": {"resume": {}} if "resume" in flags else {}}
        send(id=number, result={"protocolVersion": 1, "agentCapabilities": capabilities,
                                "authMethods": [{"id": "key", "name": "A key"}]})
    elif method == "authenticate":
        send(id=number, result={})
    elif method == "session/new":
        session = f"session-{os.getpid()}"
        opened(number, session, {"sessionId": session})
    elif method in ("session/load", "session/resume"):
        if "forgetful" in flags:
            send(id=number, error={"code": -32603, "message": "no such session"})
            return
        if method == "session/load":
            say(params["sessionId"], "history\n")
        opened(number, params["sessionId"], {})
    elif method == "session/set_mode":
        send(id=number, result={})
    elif method == "session/set_config_option":
        model = {"id": "model", "name": "Model", "category": "model", "type": "select",
                 "currentValue": params["value"], "options": []}
        send(id=number, result={"configOptions": [model]})
    elif method == "session/prompt":
        threading.Thread(target=prompt, args=(number, params), daemon=True).start()
    elif method == "session/cancel" and "stubborn" not in flags:
        cancelled.set()


if any(word.startswith("file=") for word in flags):
    path = next(word for word in flags if word.startswith("file="))[5:]
    log.write(json.dumps({"file": open(os.path.join(home, path)).read()}) + "\n")
for line in sys.stdin:
    log.write(line)
    message = json.loads(line)
    if message.get("params") is not None and "flood" in json.dumps(message.get("params")):
        handle(message)
        time.sleep(1000)
    handle(message)
if "stays" in flags:
    time.sleep(1000)
