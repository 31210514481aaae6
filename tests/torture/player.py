"""One agent: a process that starts its own `conch mcp`, does at random what agents do, and writes down what it saw.

It never looks into the store. Every text it writes carries a token that occurs nowhere else, so that the checker can
count it. An agent whose reply got lost starts a new server and, as agents do, often makes the same call again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.torture.history import Journal, Object
from tests.torture.pids import FINISHED, Pids
from tests.torture.server import CONCH, Lost, Server, Unanswered

SCOPES = ("a/*", "b/*", "a/x/*", *(f"{folder}/{name}.py" for folder in ("a", "b", "a/x") for name in "12"))
NAMES = tuple(f"{colour}-shell" for colour in ("red", "blue", "green", "white", "grey", "pink"))
LOST_PLACE = {"unknown_room", "room_closed", "unknown_member", "TOPIC_NOT_FOUND", "TOPIC_CLOSED", "AGENT_NOT_JOINED"}
LOST_LEASE = {"turn_mismatch", "stale_lease", *LOST_PLACE}


class Setting(NamedTuple):
    """Where a player plays."""

    folder: Path
    environ: dict[str, str]
    workspaces: tuple[str, ...]
    seed: int
    until: float
    pids: Pids
    pause: float = 0.0
    """How many seconds a player rests after each deed, on average."""


class Lease(NamedTuple):
    room_id: str
    turn_id: int
    lease_id: str

    @property
    def fence(self) -> Object:
        return {"room_id": self.room_id, "lease_id": self.lease_id, "expected_turn_id": self.turn_id}


class Player:
    def __init__(self, setting: Setting, index: int, generation: int) -> None:
        self._setting, self._index = setting, index
        self._life = f"{index}-{generation}"
        self._dice = random.Random(f"{setting.seed}/{self._life}")
        self._journal = Journal(setting.folder / f"player-{self._life}.jsonl")
        # One player has no id of its own: every restart makes it a new agent.
        explicit = {"CONCH_AGENT_ID": f"torture:{index}"} if index else {}
        self._environ = {**setting.environ, **explicit}
        self._server: Server | None = None
        self._tokens = 0
        self._again: Callable[[], Any] | None = None
        self._forget()

    def _forget(self) -> None:
        """What a player knows of its room."""
        self._agent_id = self._room_id = self._topic_id = ""
        self._members: list[Object] = []
        self._leases: list[Lease] = []
        self._scopes: list[str] = []
        self._questions: list[str] = []

    def play(self) -> None:
        while time.monotonic() < self._setting.until and not self._setting.pids.has_ended:
            try:
                self._step()
                time.sleep(self._dice.uniform(0, 2 * self._setting.pause))
            except Lost:
                self._drop_server()
        self._setting.pids.announce(self._index, FINISHED)
        while True:  # a player that ended would leave its turn to the others
            signal.pause()

    def _step(self) -> None:
        if self._server is None:
            self._start_server()
        if not self._room_id:
            self._join()
            return
        again, self._again = self._again, None
        if again is not None and self._dice.random() < 0.7:
            again()
        else:
            self._dice.choices(DEEDS, WEIGHTS)[0](self)

    # -- the server

    def _start_server(self) -> None:
        errors = self._setting.folder / f"stderr-{self._life}"
        self._server = Server(self._environ, errors)
        self._journal.write(server=self._server.pid)
        self._setting.pids.announce(self._index, self._server.pid)
        self._server.initialize()
        self._room_id = ""  # a new connection joins before anything else

    def _drop_server(self) -> None:
        if self._server is not None:
            self._setting.pids.announce(self._index, 0)
            self._server.end()
            self._server = None

    def _call(self, tool: str, **args: Any) -> Object | None:
        """What the tool returned; nothing if it refused."""
        assert self._server is not None
        number = self._journal.begin(self._agent_id, tool, args)
        try:
            result = self._server.call(tool, args)
        except Lost:
            self._journal.end(number, "lost")
            raise
        except Unanswered:
            self._journal.end(number, "unanswered")
            raise Lost from None
        data: Object = result["structuredContent"]
        if result.get("isError"):
            self._journal.end(number, "refused", str(data.get("error", data.get("code"))))
            self._take_refusal(str(data.get("error")), args)
            return None
        self._journal.end(number, "ok", data=distil(tool, data))
        return data

    def _take_refusal(self, code: str, args: Object) -> None:
        if code in LOST_PLACE:
            self._room_id = ""
        if code in LOST_LEASE and self._dice.random() < 0.7:  # some agents go on with a lease that is not theirs
            self._leases = [lease for lease in self._leases if lease.lease_id != args.get("lease_id")]

    def _persist(self, act: Callable[[], Any]) -> None:
        """Do something, and once more after a lost reply."""
        self._again = act
        act()
        self._again = None

    def _token(self) -> str:
        self._tokens += 1
        return f"w{self._life}-{self._tokens}w"

    # -- the room

    def _join(self) -> None:
        workspace = self._dice.choices(self._setting.workspaces, (9, *(1,) * (len(self._setting.workspaces) - 1)))[0]
        joined = self._call("join_path", context_path=workspace)
        if joined:
            self._agent_id, self._room_id, self._topic_id = (joined[k] for k in ("agent_id", "room_id", "topic_id"))
            self._members = joined["members"]
            self._workspace = workspace

    def _other(self, **facts: Any) -> Object | None:
        """Another member, as far as this player knows."""
        others = [member for member in self._members if member["agent_id"] != self._agent_id]
        others = [member for member in others if all(member[key] == value for key, value in facts.items())]
        return self._dice.choice(others) if others else None

    def look_around(self) -> None:
        state = self._call("get_room_state", room_id=self._room_id)
        if state:
            self._members = state["members"]

    def leave(self) -> None:
        if self._call("leave_path", room_id=self._room_id):
            self._room_id, self._scopes = "", []

    def close(self) -> None:
        if self._leases and self._call("close_room", **self._leases[-1].fence, reason="torture"):
            self._room_id = ""

    def note(self) -> None:
        token = self._token()
        self._persist(lambda: self._call("append_note", room_id=self._room_id, note=token))

    # -- turns

    def wait(self) -> None:
        found = self._call("wait_for_turn", room_id=self._room_id, max_wait_ms=self._dice.choice((0, 50, 300, 1_000)))
        if found and found["status"] == "your_turn":
            self._keep(found)
        elif found and found["status"] == "takeover_available" and self._dice.random() < 0.7:
            turn_id, token = found["turn_id"], self._token()
            taken = self._call("takeover_stick", room_id=self._room_id, expected_turn_id=turn_id, reason=token)
            if taken:
                self._keep(taken)

    def _keep(self, found: Object) -> None:
        lease = Lease(found["room_id"], found["turn_id"], found["lease_id"])
        self._leases = [*(each for each in self._leases if each != lease), lease][-3:]

    def heartbeat(self) -> None:
        if self._leases:
            self._call("heartbeat", **self._dice.choice(self._leases).fence)

    def release(self) -> None:
        if self._leases:
            lease, handoff = self._dice.choice(self._leases[-2:]), {"status": self._token(), "next_action": "go on"}
            self._persist(lambda: self._let_go("release_stick", lease, handoff=handoff))

    def hand_over(self) -> None:
        other = self._other(status="active")
        if self._leases and other:
            lease, handoff = self._leases[-1], {"status": self._token(), "next_action": "go on"}
            to = other["agent_id"]
            self._persist(lambda: self._let_go("pass_stick", lease, handoff=handoff, to_agent_id=to))

    def _let_go(self, tool: str, lease: Lease, **args: Any) -> None:
        done = self._call(tool, **lease.fence, **args)
        if done and self._dice.random() < 0.8 and lease in self._leases:
            self._leases.remove(lease)

    # -- messages and questions

    def send(self) -> None:
        token = self._token()
        message: Object = {"content_markdown": token}
        if self._dice.random() < 0.5:
            message["client_message_id"] = token
        self._persist(
            lambda: self._call(
                "sync", topic_id=self._topic_id, outbox=[message], wait_seconds=0, max_items=1, auto_advance=False
            )
        )

    def read(self) -> None:
        self._call("sync", topic_id=self._topic_id, wait_seconds=0, max_items=self._dice.choice((3, 20, 100)))

    def listen(self) -> None:
        self._call("sync", topic_id=self._topic_id, wait_seconds=1)

    def reset(self) -> None:
        self._call("cursor_reset", topic_id=self._topic_id, last_seq=0)

    def ask(self) -> None:
        token = self._token()
        asked = self._call("ask", topic_id=self._topic_id, question=token, wait_seconds=0)
        if asked:
            self._questions.append(asked["question_id"])

    def answer(self) -> None:
        pending = self._call("pending_list", topic_id=self._topic_id, wait_seconds=0, limit=5)
        if pending and pending["questions"]:
            question_id, token = self._dice.choice(pending["questions"])["question_id"], self._token()
            response = {"question_id": question_id, "answer_markdown": token, "suggested_followups": ["why?"]}
            self._call("answer", topic_id=self._topic_id, responses=[response])

    def settle_question(self) -> None:
        if self._questions:
            question_id = self._questions.pop()
            tool = self._dice.choice(("ask_poll", "ask_cancel", "question_mark_answered"))
            self._call(tool, topic_id=self._topic_id, question_id=question_id)

    # -- reservations, notices and names

    def reserve(self) -> None:
        scope, insist = self._dice.choice(SCOPES), self._dice.random() < 0.5
        if self._call("scope_reserve", room_id=self._room_id, scope=scope, takeover_stale=insist):
            self._scopes.append(scope)

    def unreserve(self) -> None:
        if self._scopes:
            scope = self._scopes.pop(self._dice.randrange(len(self._scopes)))
            self._call("scope_release", room_id=self._room_id, scope=scope)

    def list_scopes(self) -> None:
        self._call("scope_list", room_id=self._room_id)

    def notify(self) -> None:
        other = self._other()
        if other:
            payload = {"subject": self._token(), "blocker": "b", "requested_action": "r", "urgency": "low"}
            to = other["agent_id"]
            self._call("event_send", room_id=self._room_id, event_type="BLOCKED", to_agent=to, payload=payload)

    def take_notice(self) -> None:
        found = self._call("event_inbox", room_id=self._room_id, limit=5)
        if found and found["events"]:
            event_id = self._dice.choice(found["events"])["id"]
            self._call("event_mark", event_id=event_id, mark=self._dice.choice(("seen", "accepted")))

    def rename(self) -> None:
        self._call("agent_register", room_id=self._room_id, name=self._dice.choice(NAMES))

    def adopt(self) -> None:
        self.look_around()
        silent = self._other(status="inactive")  # perhaps its process is gone
        if silent:
            self._call("agent_adopt", room_id=self._room_id, name=silent["agent_id"], scope=".")

    # -- the command line

    def command(self) -> None:
        if "CONCH_AGENT_ID" not in self._environ:
            self.look_around()  # a command whose player was killed could not find out whose command it is
            return
        verb, token = self._dice.choice(("note", "send", "send", "state")), self._token()
        text = () if verb == "state" else (token,)
        args = {"text": token, "room_id": self._room_id}
        number = self._journal.begin(self._agent_id, f"conch {verb}", args)
        command = (*CONCH, verb, *text, "--room", self._room_id, "--json")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self._environ) as popen:
            self._setting.pids.announce(self._index, popen.pid)
            output = popen.communicate()[0]
        self._setting.pids.announce(self._index, self._server.pid if self._server else 0)
        if not output.endswith(b"\n"):
            self._journal.end(number, "lost")
            return
        report = json.loads(output)
        error = report["error"] or {}
        self._journal.end(number, "ok" if report["ok"] else "refused", error.get("code", error.get("error", "")))


def fork_player(setting: Setting, index: int, generation: int) -> int:
    """Start a player in a process of its own; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        Player(setting, index, generation).play()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def distil(tool: str, data: Object) -> Object:
    """The part of a reply that the checker looks at."""
    if tool == "sync":
        received = [(each["seq"], each["message_id"]) for each in data["received"]]
        sent = [(each["message"]["seq"], each["message"]["message_id"]) for each in data["sent"]]
        return {"received": received, "sent": sent, "cursor": data["cursor"], "topic_id": data["topic_id"]}
    if tool == "scope_reserve":
        facts = {key: data["reservation"][key] for key in ("reservation_id", "scope", "expires_at")}
        return {**facts, "taken_over": [each["reservation_id"] for each in data["taken_over"]]}
    if tool == "agent_adopt":
        return {"prior": data["event"]["payload"]["prior_session_agent"]}
    if tool == "event_mark":
        return {"event_id": data["event"]["id"], "state": data["event"]["state"]}
    kept = ("agent_id", "room_id", "topic_id", "status", "turn_id", "lease_id", "lease_expires_at", "reason")
    return {key: data[key] for key in (*kept, "question_id", "saved", "event_seq") if key in data}


DEEDS: list[Callable[[Player], None]]
WEIGHTS: list[int]
DEEDS, WEIGHTS = map(
    list,
    zip(
        (Player.wait, 30),
        (Player.heartbeat, 12),
        (Player.release, 16),
        (Player.hand_over, 6),
        (Player.send, 22),
        (Player.read, 18),
        (Player.listen, 2),
        (Player.reset, 1),
        (Player.ask, 4),
        (Player.answer, 5),
        (Player.settle_question, 3),
        (Player.reserve, 12),
        (Player.unreserve, 9),
        (Player.list_scopes, 1),
        (Player.notify, 4),
        (Player.take_notice, 4),
        (Player.rename, 3),
        (Player.adopt, 2),
        (Player.note, 6),
        (Player.look_around, 4),
        (Player.leave, 2),
        (Player.close, 1),
        (Player.command, 3),
        strict=True,
    ),
)
