"""What agents do. Each operation is a call of a domain, as a door makes it, and what the agent learns from the reply.

An operation that is refused raises the refusal. Operations may have several transactions; `world.py` explains how they
are suspended in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.explore.state import NO_LEASE, Client, State, members, open_room

from conch.agents.identity import Signal, Signals, identify
from conch.agents.people import Person
from conch.app import App
from conch.bus.drafts import Draft
from conch.bus.peers import Peer
from conch.overseeing.steering import Steering
from conch.rooms.presence import Lease
from conch.rooms.room import Room

RESERVED_MINUTES = 19  # lapses after two ticks
MOST_MESSAGES = 2
HANDOFF = {"status": "done", "next_action": "go on"}


class Agent:
    """A client during one of its operations."""

    def __init__(self, app: App, workspace: str, state: State, client: Client) -> None:
        self.app = app
        self.workspace = workspace
        self.state = state
        self.client = client
        self.showed: Lease | None = None
        self.app.messages._silences = dict(client.silences)
        self.app.claims._latest.clear()  # those of other branches, which the state does not tell apart

    def learn(self, **changes: Any) -> None:
        self.client = self.client._replace(**changes)

    def show(self, lease: Lease | None) -> tuple[str, str, int]:
        """The arguments of a fenced call. Without a lease the agent makes one up."""
        self.showed = lease or NO_LEASE
        return self.room_id, self.showed.lease_id, self.showed.turn_id

    def take(self, room: Room) -> None:
        """Remember a granted lease."""
        self.learn(lease=Lease(str(room.lease_id), room.turn_id))

    def finish(self) -> Client:
        """The client after the operation, with what its process remembers."""
        self.learn(doing=None, silences=tuple(sorted(self.app.messages._silences.items())))
        return self.client

    @property
    def caller(self) -> Any:
        return self.client.caller

    @property
    def room_id(self) -> str:
        return self.client.room_id or "room_none"

    @property
    def peer(self) -> Peer:
        return Peer(self.client.topic_id or "topic_none", self.caller.agent_id)

    def another(self, step: int) -> str:
        """Another agent: the next one, or the one after that."""
        others = self.state.clients
        caller = others[(self.client.number + step) % len(others)].caller
        return caller.agent_id if caller else "test:nobody"


Operation = Callable[[Agent], Any]

# -- coming and going


def identify_itself(agent: Agent) -> Any:
    """A harness has started, or has resumed its session in a new process."""
    signal = Signal("session", f"session {agent.client.number}", "test")
    signals = Signals((signal,), "test", agent.client.process, None, "mcp_harness", "Test")
    caller = identify(agent.app.store, signals)
    agent.learn(caller=caller)
    return caller


def join(agent: Agent) -> Any:
    joined = agent.app.membership.join_path(agent.caller, agent.workspace)
    room = joined.snapshot.room
    if room.room_id != agent.client.room_id:
        # Until it is granted a lease, it shows that of the room before, or one that it made up, for the first turn.
        lease = (agent.client.lease or NO_LEASE)._replace(turn_id=1)
        agent.learn(received=frozenset(), lease=lease)
    agent.learn(room_id=room.room_id, topic_id=room.topic_id)
    return joined


def leave(agent: Agent) -> Any:
    return agent.app.membership.leave_path(agent.caller, agent.room_id)


# -- the stick


def wait(agent: Agent) -> Any:
    found = agent.app.claims.wait_for_turn(agent.caller, agent.room_id, max_wait_ms=0)
    if found.status == "your_turn":
        agent.take(found.snapshot.room)
    return found


def wait_in_vain(agent: Agent) -> Any:
    """The reply of a claim is lost, so the door gives the stick back."""
    found = agent.app.claims.wait_for_turn(agent.caller, agent.room_id, max_wait_ms=0)
    if found.claim is not None:
        agent.app.claims.give_back(agent.caller, found.claim)
    return "given back"


def heartbeat(agent: Agent) -> Any:
    return agent.app.turns.heartbeat(agent.caller, *agent.show(agent.client.lease))


def heartbeat_with_this_turn(agent: Agent) -> Any:
    """The agent knows that there is a new turn, and shows its old lease for that one."""
    room, lease = open_room(agent.state), agent.client.lease or NO_LEASE
    return agent.app.turns.heartbeat(agent.caller, *agent.show(lease._replace(turn_id=room["turn_id"] if room else 0)))


def release(agent: Agent) -> Any:
    return agent.app.turns.release_stick(agent.caller, *agent.show(agent.client.lease), HANDOFF)


def pass_to_next(agent: Agent) -> Any:
    to = agent.another(1)
    return agent.app.turns.pass_stick(agent.caller, *agent.show(agent.client.lease), to, HANDOFF)


def pass_to_second_next(agent: Agent) -> Any:
    to = agent.another(2)
    return agent.app.turns.pass_stick(agent.caller, *agent.show(agent.client.lease), to, HANDOFF)


def take_over(agent: Agent) -> Any:
    """Look at the room, then take over the turn that was seen."""
    room = agent.app.rooms.get_state(None, agent.room_id).room
    taken = agent.app.claims.takeover_stick(agent.caller, agent.room_id, room.turn_id, "silent")
    agent.take(taken.room)
    return taken


def force(agent: Agent) -> Any:
    """A person takes the stick from an agent that may still have time."""
    taken = Steering(agent.app).take(Person(agent.caller), agent.room_id, "now")
    agent.take(taken.room)
    return taken


def kick_next(agent: Agent) -> Any:
    """A person ends the membership of another agent, which may be next or hold the stick."""
    return Steering(agent.app).kick(Person(agent.caller), agent.room_id, agent.another(1), "out")


def insist(agent: Agent) -> Any:
    """Do all that one agent can do to get the stick, and then to reserve everything."""
    join(agent)
    if wait(agent).status == "takeover_available":
        take_over(agent)
    reserve(agent, ".", takeover_stale=True)
    return agent.client.lease


# -- the room


def note(agent: Agent) -> Any:
    return agent.app.membership.append_note(agent.caller, agent.room_id, "by the way")


def reverse_order(agent: Agent) -> Any:
    order = [row["agent_id"] for row in members(agent.state, open_room(agent.state))][::-1]
    return agent.app.membership.reorder_members(agent.caller, agent.room_id, order)


def close(agent: Agent) -> Any:
    return agent.app.membership.close_room(agent.caller, *agent.show(agent.client.lease), None)


# -- reservations


def reserve(agent: Agent, scope: str, takeover_stale: bool = False) -> Any:
    return agent.app.reservations.reserve(
        agent.caller, agent.room_id, scope, RESERVED_MINUTES, takeover_stale=takeover_stale
    )


def reserve_folder(agent: Agent) -> Any:
    return reserve(agent, "src")


def reserve_file(agent: Agent) -> Any:
    return reserve(agent, "src/main.py")


def take_over_folder(agent: Agent) -> Any:
    return reserve(agent, "src", takeover_stale=True)


def free_folder(agent: Agent) -> Any:
    return agent.app.reservations.release(agent.caller, agent.room_id, "src")


def free_file(agent: Agent) -> Any:
    return agent.app.reservations.release(agent.caller, agent.room_id, "src/main.py")


# -- messages and questions


def send(agent: Agent) -> Any:
    """Send a message, unless there are enough: without an end to them there would be no end of states."""
    if len(agent.state.rows["messages"]) >= MOST_MESSAGES:
        return "enough"
    return agent.app.messages.send(agent.peer, [Draft("hello")])


def sync(agent: Agent) -> Any:
    """Receive one message; the cursor moves after the reply has gone out."""
    synced = agent.app.messages.sync(agent.peer, [], max_items=1)
    agent.learn(received=agent.client.received | {message.seq for message in synced.page.received})
    agent.app.messages.settle(synced, advance=True)
    return synced


def sync_in_vain(agent: Agent) -> Any:
    """The reply is lost after the cursor has moved, so the door takes the delivery back."""
    synced = agent.app.messages.sync(agent.peer, [], max_items=1)
    agent.app.messages.settle(synced, advance=True)
    agent.app.messages.retract(synced.page.peer, synced.page.standing)
    return "taken back"


def read_again(agent: Agent) -> Any:
    return agent.app.peers.reset_cursor(agent.peer, 0)


def ask(agent: Agent) -> Any:
    if len(agent.state.rows["questions"]) >= MOST_MESSAGES:
        return "enough"
    return agent.app.questions.ask(agent.peer, "why?")


def answer(agent: Agent) -> Any:
    """Answer the latest question, pending or not."""
    questions = [row["question_id"] for row in agent.state.rows["questions"]] or ["msg_none"]
    response = {"question_id": questions[-1], "answer_markdown": "so", "suggested_followups": ["and?"]}
    return agent.app.questions.answer(agent.peer, [response])


def cancel_question(agent: Agent) -> Any:
    questions = [row["question_id"] for row in agent.state.rows["questions"]] or ["msg_none"]
    return agent.app.questions.cancel(agent.peer, questions[-1], None)


OPERATIONS: dict[str, Operation] = {
    each.__name__: each
    for each in (
        identify_itself, join, leave,
        wait, wait_in_vain, heartbeat, heartbeat_with_this_turn, release, pass_to_next, pass_to_second_next, take_over,
        force, kick_next, note, reverse_order, close,
        reserve_folder, reserve_file, take_over_folder, free_folder, free_file,
        insist, send, sync, sync_in_vain, read_again, ask, answer, cancel_question,
    )
}  # fmt: skip
