"""A scripted model on loopback. It speaks the protocols of the four large providers, so real harnesses run without one.

A script is a generator. It yields what the model does next, and gets what the model was shown since: results of tools,
texts of hooks, prompts. A prompt that contains `play NAME` starts the script NAME; later prompts of the same
conversation continue it.
"""

from __future__ import annotations

import http.server
import json
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator
from itertools import count
from typing import Any, NamedTuple

Object = dict[str, Any]


class Say(NamedTuple):
    """A text, which ends the turn."""

    text: str = "Done."


class Use(NamedTuple):
    """A call of one of our tools."""

    tool: str
    arguments: Object = {}


class Run(NamedTuple):
    """A command in the harness's own shell tool."""

    command: str


class Write(NamedTuple):
    """A new file, with the harness's own tool for edits."""

    path: str
    content: str = "changed\n"


Step = Say | Use | Run | Write
Script = Generator[Step, str, None]

_SHELLS: dict[str, Callable[[str], Object]] = {
    "Bash": lambda command: {"command": command, "description": "run"},
    "bash": lambda command: {"command": command, "description": "run"},
    "exec_command": lambda command: {"cmd": command, "yield_time_ms": 20_000},
    "shell_command": lambda command: {"command": command},
    "run_shell_command": lambda command: {"command": command, "description": "run"},
}
_EDITORS: dict[str, Callable[[str, str], Object]] = {
    "Write": lambda path, content: {"file_path": path, "content": content},
    "write": lambda path, content: {"filePath": path, "content": content},
    "write_file": lambda path, content: {"file_path": path, "content": content},
    "create": lambda path, content: {"path": path, "file_text": content},
}
_PATCH = "*** Begin Patch\n*** Add File: {path}\n+{content}\n*** End Patch\n"


class _Tool(NamedTuple):
    name: str
    namespace: str | None = None
    is_free: bool = False
    """Whether it takes a text instead of arguments."""


class _Call(NamedTuple):
    id: str
    tool: _Tool
    arguments: Object | str


class _Play:
    """One script, and how far it is."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._is_begun = False
        self._shown: set[str] = set()
        self.heard: list[str] = []
        """What the model was shown at each step."""

    def go_on(self, texts: list[str]) -> Step:
        new = [text for text in texts if text not in self._shown]
        self._shown.update(texts)
        self.heard.append("\n".join(new))
        try:
            if self._is_begun:
                return self._script.send(self.heard[-1])
            self._is_begun = True
            return next(self._script)
        except StopIteration:
            return Say()


class Model:
    """The server. Use it as a context; `play` adds a script."""

    def __init__(self) -> None:
        self._plays: dict[str, _Play] = {}
        self._lock = threading.Lock()
        self._numbers = count(1)
        handler = type("Handler", (_Handler,), {"model": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Model:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def play(self, name: str, script: Script) -> list[str]:
        """Add a script. Returns the list of what the model is shown, which grows with each step."""
        self._plays[name] = play = _Play(script)
        return play.heard

    def answer(self, texts: list[str], tools: list[_Tool]) -> str | _Call:
        """The next step of the conversation with these texts."""
        if not tools:
            return "A title."
        names = re.findall(r"\bplay ([\w-]+)", "\n".join(texts))
        with self._lock:
            play = next((self._plays[name] for name in reversed(names) if name in self._plays), None)
            step = play.go_on(texts) if play else Say()
        return step.text if isinstance(step, Say) else self._call(step, tools)

    def _call(self, step: Use | Run | Write, tools: list[_Tool]) -> _Call:
        return _Call(f"call_{next(self._numbers)}_{time.time_ns()}", *_resolve(step, tools))


def _resolve(step: Use | Run | Write, tools: list[_Tool]) -> tuple[_Tool, Object | str]:
    """The tool of this harness for a step, and its arguments."""
    if isinstance(step, Use):
        ours = [each for each in tools if "conch" in f"{each.namespace}{each.name}"]
        found = next((each for each in ours if re.search(rf"(^|[_-]){step.tool}$", each.name)), None)
        return found or _Tool(f"mcp__conch__{step.tool}"), step.arguments
    named = {each.name: each for each in tools}
    if isinstance(step, Write):
        editor = next((name for name in _EDITORS if name in named), None)
        if editor:
            return named[editor], _EDITORS[editor](step.path, step.content)
        patch = _PATCH.format(path=step.path, content=step.content.rstrip("\n").replace("\n", "\n+"))
        if "apply_patch" in named:
            return named["apply_patch"], patch if named["apply_patch"].is_free else {"input": patch}
        step = Run(f"apply_patch <<'EOF'\n{patch}EOF\n")
    shell = next(name for name in _SHELLS if name in named)
    return named[shell], _SHELLS[shell](step.command)


def _texts(value: Any) -> Iterator[str]:
    """Every string inside the messages of a request."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send({})

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [{"id": "scripted", "object": "model"}], "models": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        path = self.path.partition("?")[0]
        try:
            if path.endswith("/messages"):
                self._anthropic(body)
            elif path.endswith("/responses"):
                self._responses(body)
            elif path.endswith("/chat/completions"):
                self._completions(body)
            elif "enerateContent" in path:
                self._gemini(body, is_stream="stream" in path)
            else:
                self._send({"input_tokens": 1, "totalTokens": 1})
        except OSError:  # the harness went away
            self.close_connection = True

    def _send(self, value: Object) -> None:
        text = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text if self.command != "HEAD" else b"")

    def _stream(self, events: list[Object | str], are_named: bool = True) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if are_named and isinstance(event, dict) else ""
            text = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f"{name}data: {text}\n\n".encode())
        self.wfile.flush()
        self.close_connection = True

    # -- Anthropic Messages

    def _anthropic(self, body: Object) -> None:
        tools = [_Tool(each["name"]) for each in body.get("tools") or [] if "name" in each]
        said = self.model.answer(list(_texts(body["messages"])), tools)
        if isinstance(said, str):
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": said}
        else:
            block = {"type": "tool_use", "id": said.id, "name": said.tool.name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(said.arguments)}
        reason = "end_turn" if isinstance(said, str) else "tool_use"
        message: Object = {
            "id": f"msg_{time.time_ns()}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if not body.get("stream"):
            full = {**block, "text": said} if isinstance(said, str) else {**block, "input": said.arguments}
            self._send({**message, "content": [full], "stop_reason": reason})
            return
        ending = {"stop_reason": reason, "stop_sequence": None}
        self._stream(
            [
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0, "content_block": block},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 1}},
                {"type": "message_stop"},
            ]
        )

    # -- OpenAI Responses

    def _responses(self, body: Object) -> None:
        given = body.get("input") or []
        given = given if isinstance(given, list) else [given]
        late = [each for item in given if isinstance(item, dict) for each in item.get("tools") or ()]
        said = self.model.answer(list(_texts(given)), list(_response_tools([*(body.get("tools") or []), *late])))
        identifier = f"resp_{time.time_ns()}"
        item: Object = {"id": f"item_{identifier}", "status": "completed"}
        if isinstance(said, str):
            content = [{"type": "output_text", "text": said, "annotations": []}]
            item |= {"type": "message", "role": "assistant", "content": content}
        elif said.tool.is_free:
            item |= {"type": "custom_tool_call", "call_id": said.id, "name": said.tool.name, "input": said.arguments}
        else:
            arguments = json.dumps(said.arguments)
            item |= {"type": "function_call", "call_id": said.id, "name": said.tool.name, "arguments": arguments}
        if not isinstance(said, str) and said.tool.namespace:
            item["namespace"] = said.tool.namespace
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        response = {"id": identifier, "object": "response", "status": "completed", "output": [item], "usage": usage}
        if not body.get("stream"):
            self._send(response)
            return
        self._stream(
            [
                {"type": "response.created", "response": {"id": identifier, "status": "in_progress", "output": []}},
                {"type": "response.output_item.added", "output_index": 0, "item": item},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": response},
            ]
        )

    # -- OpenAI Chat Completions

    def _completions(self, body: Object) -> None:
        tools = [_Tool(each["function"]["name"]) for each in body.get("tools") or []]
        said = self.model.answer(list(_texts(body["messages"])), tools)
        message: Object = {"role": "assistant", "content": said if isinstance(said, str) else None}
        if not isinstance(said, str):
            function = {"name": said.tool.name, "arguments": json.dumps(said.arguments)}
            message["tool_calls"] = [{"index": 0, "id": said.id, "type": "function", "function": function}]
        reason = "stop" if isinstance(said, str) else "tool_calls"
        head = {"id": f"chat_{time.time_ns()}", "created": int(time.time()), "model": body.get("model")}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self._send({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        chunk = {**head, "object": "chat.completion.chunk"}
        self._stream(
            [
                {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
                {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
                "[DONE]",
            ],
            are_named=False,
        )

    # -- Gemini

    def _gemini(self, body: Object, is_stream: bool) -> None:
        declared = [each for tool in body.get("tools") or [] for each in tool.get("functionDeclarations") or []]
        said = self.model.answer(list(_texts(body.get("contents"))), [_Tool(each["name"]) for each in declared])
        if isinstance(said, str):
            wants_json = "response" in str((body.get("generationConfig") or {}).keys()).lower()
            part: Object = {"text": "{}" if wants_json and not declared else said}
        else:
            part = {"functionCall": {"name": said.tool.name, "args": said.arguments, "id": said.id}}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        content = {"role": "model", "parts": [part]}
        reply = {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}
        if is_stream:
            self._stream([reply], are_named=False)
        else:
            self._send(reply)


def _response_tools(given: list[Object]) -> Iterator[_Tool]:
    """The tools of a request of Codex, some of which are in namespaces."""
    for each in given:
        if each.get("type") == "namespace":
            yield from (_Tool(inner["name"], each["name"]) for inner in each.get("tools") or ())
        elif "name" in each:
            yield _Tool(each["name"], None, each.get("type") == "custom")
