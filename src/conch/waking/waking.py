"""What an agent is woken for, and the log of it.

An agent is woken for a stick that is reserved for it, for messages to it, and for a BLOCKED notice of high urgency;
not for acknowledgements. One wake covers everything that waits, and the next one comes only after all of that was
read. After a few wakes that did not bring the stick, only the stick wakes the agent, until its user types something.
So agents cannot keep each other awake. A run in the background that ends while it holds the stick is resumed once,
because no hook kept it from stopping.

Each wake has a state in the room's timeline: `queued` (the harness was called), `delivered` (a hook saw it arrive),
`ambiguous` (it may have arrived) or `failed` (it did not arrive).
"""

from __future__ import annotations

from collections.abc import Callable

from conch.agents.identity import load_caller
from conch.agents.records import label
from conch.clock import SECOND
from conch.ids import new_id
from conch.lean import TYPE_CHECKING, Literal, NamedTuple, json
from conch.notices import activity
from conch.storage.base import Store
from conch.waking.signs import HELD_BACK, Signs

if TYPE_CHECKING:
    from conch.harnesses.alarms import Rung

_State = Literal["queued", "delivered", "ambiguous", "failed"]

_KIND = "wake"
_MOST = 20  # things of one kind that are looked at
_MOST_IN_A_ROW = 5
_PATIENCE = 120 * SECOND  # after this time without a sign, nobody knows whether a wake has arrived


class Reason(NamedTuple):
    """One thing that waits for an agent."""

    id: str
    what: Literal["stick", "message", "blocked", "held"]
    """`held`: a run of the agent has ended, and it still holds the stick."""
    sender: str
    """A label; empty for the stick."""


class _Wake(NamedTuple):
    """The last wake of an agent."""

    wake_id: str = ""
    state: _State = "delivered"
    at: int = 0
    reasons: list[str] = []
    in_a_row: int = 0
    room_id: str = ""

    @classmethod
    def parse(cls, text: str) -> _Wake:
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return cls()

    def __str__(self) -> str:
        return json.dumps(self._asdict())

    def allows(self, reasons: list[Reason]) -> bool:
        """Whether the agent may be woken for these now."""
        waiting = {reason.id for reason in reasons}
        has_new = bool(waiting - {*self.reasons})
        has_reacted = self.state == "failed" or not waiting & {*self.reasons}
        return has_new and has_reacted and (_bring_stick(reasons) or self.in_a_row < _MOST_IN_A_ROW)


class Waking:
    def __init__(self, store: Store) -> None:
        self._store = store

    def find_due(self, agent_id: str, signs: Signs) -> list[Reason]:
        """What the agent should be woken for now."""
        last = _Wake.parse(signs.read_last())
        if last.state == "queued" and self._now() - last.at > _PATIENCE:
            last = self._record(agent_id, signs, last, "ambiguous", "no hook saw it arrive")
        if not signs.has_stopped:
            return []
        if signs.take_user():
            last = last._replace(in_a_row=0)
            signs.write_last(str(last))
        reasons = self._find_reasons(agent_id)
        return reasons if last.allows(reasons) else []

    def wake(self, agent_id: str, signs: Signs, reasons: list[Reason], ring: Callable[[str, str], Rung]) -> None:
        """Wake an agent: `ring` calls its harness with a prompt for a session."""
        rooms = self._store.glance("rooms_of_agent", agent_id=agent_id, limit=1)
        if not rooms:  # it has left, and there is no log
            return
        in_a_row = _Wake.parse(signs.read_last()).in_a_row + (not _bring_stick(reasons))
        wake = _Wake(new_id("wake"), "queued", 0, [reason.id for reason in reasons], in_a_row, rooms[0]["room_id"])
        whats = ", ".join(sorted({reason.what for reason in reasons}))
        wake = self._record(agent_id, signs, wake, "queued", whats)
        session_id = signs.session_id
        rung = ring(_describe(wake, reasons), session_id)
        if rung.state != "queued" and _Wake.parse(signs.read_last()).state == "queued":  # a hook may have seen it
            self._record(agent_id, signs, wake, rung.state, rung.why)
        if rung.has_ended and not signs.has_stopped:  # no hook saw the run end
            signs.note_stop(session_id)
            held = self._find_held(agent_id)
            if held and reasons[0].what != "held":
                self.wake(agent_id, signs, held, ring)

    def _find_held(self, agent_id: str) -> list[Reason]:
        """The sticks that the agent holds."""
        rooms = self._store.glance("rooms_of_agent", agent_id=agent_id, limit=_MOST)
        return [Reason(room["room_id"], "held", "") for room in rooms if room["owner"] == agent_id]

    def confirm(self, agent_id: str, signs: Signs, prompt: str) -> bool:
        """Whether conch itself wrote the prompt. If it is the prompt of the last wake, log that it has arrived."""
        if prompt.startswith(HELD_BACK):  # OpenCode gives the reason not to stop as a prompt
            return True
        last = _Wake.parse(signs.read_last())
        if not last.wake_id or last.wake_id not in prompt:
            return False
        if last.state != "delivered":
            self._record(agent_id, signs, last, "delivered", "")
        return True

    def _find_reasons(self, agent_id: str) -> list[Reason]:
        """What waits for an agent and is worth waking it."""
        from conch.bus.stream import indexed_addressees  # mostly there is nothing

        sticks = self._store.glance("sticks_for_agent", agent_id=agent_id, limit=_MOST)
        given = {"agent_id": agent_id, "to_all": 0, "limit": _MOST}
        messages = self._store.glance("news_messages", **given)
        notices = self._store.glance("news_notices", **given)
        return [
            *(Reason(f"{row['room_id']} {row['turn_id']}", "stick", "") for row in sticks),
            *(
                Reason(row["message_id"], "message", label(row["sender_agent_id"], row["sender"]))
                for row in messages
                if indexed_addressees(row["metadata_json"])
            ),
            *(
                Reason(row["event_id"], "blocked", label(row["from_agent_id"], row["from_agent"]))
                for row in notices
                if row["event_type"] == "BLOCKED" and json.loads(row["payload_json"]).get("urgency") == "high"
            ),
        ]

    def _record(self, agent_id: str, signs: Signs, wake: _Wake, state: _State, why: str) -> _Wake:
        """Log the outcome of a wake, and remember it."""
        caller = load_caller(self._store, agent_id)
        with self._store.write(wake.room_id) as tx:
            activity.record(tx, wake.room_id, _KIND, caller, wake.wake_id, {"state": state, "why": why})
            recorded = wake._replace(state=state, at=tx.now)
        signs.write_last(str(recorded))
        return recorded

    def _now(self) -> int:
        with self._store.read() as tx:
            return int(tx.now)


def _bring_stick(reasons: list[Reason]) -> bool:
    return any(reason.what in ("stick", "held") for reason in reasons)


def _describe(wake: _Wake, reasons: list[Reason]) -> str:
    """The prompt that wakes an agent. It contains the names of other agents, but nothing that they wrote."""
    lines = [f"conch ({wake.wake_id}): you have stopped, and something waits for you."]
    for what, text in (
        ("stick", "- The stick is reserved for you. Call `join_path`, then `wait_for_turn`, which brings the handoff."),
        (
            "held",
            "- You still hold the stick. Call `join_path` and `wait_for_turn`. Then finish your work, and hand over "
            "with `release_stick` or `pass_stick`.",
        ),
        ("message", "- There are messages to you from {}. Call `sync`."),
        ("blocked", "- {} is blocked and needs you urgently. Call `event_inbox`."),
    ):
        senders = sorted({reason.sender for reason in reasons if reason.what == what})
        lines += [text.format(", ".join(senders[:3]))] * bool(senders)
    lines.append("This comes from conch, not from your user. If there is nothing for you to do, stop again.")
    return "\n".join(lines)
