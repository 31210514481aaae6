"""The rules that no history may break, whatever was killed, stopped or taken away.

A rule looks at what the clients saw: a reply that was read before a request was made must be true for that request.
Calls that overlap in time may have taken effect in either order, and a call whose reply was lost may or may not have
taken effect; a rule gives each the benefit of the doubt. See `Epoch` for what is demanded when the store is lost.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from tests.torture.history import Call, Epoch, History, Object, Signal

GRANTS = ("wait_for_turn", "takeover_stick")
LETTING_GO = ("release_stick", "pass_stick")
FENCED = ("heartbeat", *LETTING_GO, "close_room")
UNREAD_SECONDS = 10.0  # a claim whose reply was not read for longer may have been given back
GRACE = 0.05  # seconds by which two looks at the time of day may differ


class Violation(NamedTuple):
    rule: str
    what: str
    evidence: list[Call]

    def __str__(self) -> str:
        return "\n".join([f"{self.rule}: {self.what}", *(f"  {call}" for call in self.evidence)])


Found = Iterator[tuple[str, list[Call]]]
Rule = Callable[[History], Found]


def check(history: History) -> list[Violation]:
    """All violations, those with the shortest evidence first."""
    found = [Violation(rule.__name__, what, evidence) for rule in RULES for what, evidence in rule(history)]
    return sorted(found, key=lambda violation: len(violation.evidence))


def _inside(history: History) -> Iterator[tuple[Epoch, list[Call]]]:
    """Each epoch with the calls that lie wholly inside it."""
    for epoch in history.epochs:
        yield epoch, [call for call in history.calls if epoch.holds(call)]


def _group(calls: Iterable[Call], key: Callable[[Call], Any]) -> dict[Any, list[Call]]:
    groups = defaultdict(list)
    for call in calls:
        groups[key(call)].append(call)
    return groups


def _room(call: Call) -> str:
    return str(call.args.get("room_id"))


def _grants(calls: Iterable[Call]) -> list[Call]:
    return [call for call in calls if call.tool in GRANTS and call.is_ok and "lease_id" in call.data]


def _seconds(iso: str) -> float:
    return datetime.fromisoformat(iso).timestamp()


# -- turns


def each_turn_has_one_owner(history: History) -> Found:
    for _, calls in _inside(history):
        for grants in _group(_grants(calls), lambda call: (_room(call), call.data["turn_id"])).values():
            if len({(call.agent_id, call.data["lease_id"]) for call in grants}) > 1:
                yield "two owners of one turn", grants[:2]


def nothing_succeeds_with_an_old_turn(history: History) -> Found:
    """After a reply has granted a turn, no later request of an earlier turn is granted or accepted."""
    for _, calls in _inside(history):
        acts = _grants(calls) + [call for call in calls if call.tool in FENCED and call.is_ok]
        for in_room in _group(acts, _room).values():
            newer: list[Call] = []  # among the grants of later turns, the one whose reply came first
            for _, of_turn in sorted(_group(in_room, _turn).items(), reverse=True):
                old = [call for call in of_turn if newer and newer[0].ended < call.began]
                yield from (("an old turn was accepted", [*newer, call]) for call in old)
                newer = sorted([*newer, *_grants(of_turn)], key=lambda call: call.ended)[:1]


def _turn(call: Call) -> int:
    turn: int = call.data["turn_id"] if call.tool in GRANTS else call.args["expected_turn_id"]
    return turn


def a_held_stick_is_not_claimed(history: History) -> Found:
    """A claim follows a turn that its owner let go, or that no client got.

    An agent that is already the owner may have taken the stick over, with a reply that was lost.
    """
    for _, calls in _inside(history):
        for in_room in _group(calls, _room).values():
            grants = {_turn(call): call for call in reversed(_grants(in_room))}  # the first of each turn
            gone = _group((c for c in in_room if c.tool in LETTING_GO and c.may_have_acted), _turn)
            for turn, claim in grants.items():
                held = grants.get(turn - 1)
                let_go = any(call.began < claim.ended for call in gone[turn - 1])
                let_go = let_go or _was_taken_over(in_room, claim)
                if claim.tool == "wait_for_turn" and held and _was_read(held, before=claim) and not let_go:
                    yield "claimed while another held it", [held, claim]


def _was_taken_over(in_room: list[Call], claim: Call) -> bool:
    """Whether a takeover whose reply was lost may be what made this agent the owner."""
    lost = [call for call in in_room if call.tool == "takeover_stick" and call.may_have_acted and not call.is_ok]
    return claim.data.get("reason") == "already_owner" and any(
        call.agent_id == claim.agent_id
        and call.args["expected_turn_id"] == _turn(claim) - 1
        and call.began < claim.began
        for call in lost
    )


def _was_read(grant: Call, before: Call) -> bool:
    return grant.ended < before.ended and grant.ended - grant.began < UNREAD_SECONDS


def an_owner_with_time_left_keeps_the_stick(history: History) -> Found:
    """A takeover follows a lapsed lease, or the death of the owner's process."""
    for _, calls in _inside(history):
        for in_room in _group(calls, _room).values():
            renewals = [c for c in in_room if c.is_ok and "lease_expires_at" in c.data and "turn_id" in c.data]
            of_turn = _group((c for c in renewals if c.data.get("lease_id")), lambda call: call.data["turn_id"])
            gone = _group((c for c in in_room if c.tool in LETTING_GO and c.may_have_acted), _turn)
            for taken in _grants(in_room):
                before = _turn(taken) - 1
                held = [call for call in of_turn[before] if call.ended < taken.began]
                let_go = any(call.began < taken.ended for call in gone[before])
                if taken.tool != "takeover_stick" or not held or let_go:
                    continue
                last = max(held, key=lambda call: _seconds(call.data["lease_expires_at"]))
                left = _seconds(last.data["lease_expires_at"]) - taken.wall
                if left > GRACE and not _was_killed(history.signals, last, taken):
                    yield f"taken over {left:.3f} s before the lease ended", [last, taken]


def _was_killed(signals: list[Signal], held: Call, taken: Call) -> bool:
    killed = [signal for signal in signals if signal.kind.startswith("KILL") and signal.player == held.player]
    return any(held.began < signal.at < taken.ended for signal in killed)


def a_lost_store_takes_its_leases_with_it(history: History) -> Found:
    """A lease that the present store never granted is refused."""
    before = -math.inf  # when the disaster before this epoch began
    for epoch, calls in _inside(history):
        former = {call.data["lease_id"]: call for call in _grants(history.calls) if call.ended < before}
        before = epoch.ended
        for call in calls:
            grant = former.get(call.args.get("lease_id", ""))
            if call.tool in FENCED and call.is_ok and grant and grant.began > epoch.kept_until:
                yield "a lease of a lost store was accepted", [grant, call]


# -- what was written

TOKEN = re.compile(r"w\d+-\d+-\d+w")
_TABLES = {
    "sync": "messages",
    "ask": "messages",
    "answer": "messages",
    "conch send": "messages",
    "append_note": "room_events",
    "conch note": "room_events",
    "takeover_stick": "room_events",
    "release_stick": "room_events",
    "pass_stick": "room_events",
    "event_send": "protocol_events",
}
"""Where the token of a call must be found."""


def writes_are_stored_as_often_as_acknowledged(history: History) -> Found:
    """What was acknowledged is stored; what was refused is not; what was lost may be stored once for each attempt."""
    attempts = _group((call for call in history.calls if call.tool in _TABLES), _token_of)
    attempts.pop("", None)
    for epoch in history.epochs:
        stored = _count_tokens(epoch)
        for token, calls in attempts.items():
            count = stored[_TABLES[calls[0].tool], token]
            sure = [call for call in calls if _saved(call) and epoch.began < call.began and call.ended < epoch.closing]
            possible = [call for call in calls if call.may_have_acted]
            if count < _stored_by(sure):
                yield f"acknowledged {len(sure)} times, stored {count} times", calls
            if count > _stored_by(possible):
                yield f"stored {count} times, acknowledged or lost {len(possible)} times", calls


def _stored_by(calls: list[Call]) -> int:
    """How many rows these calls make. With a `client_message_id` a topic keeps only one."""
    if calls and _is_unique(calls[0]):
        return len({call.args["topic_id"] for call in calls})
    return len(calls)


def _token_of(call: Call) -> str:
    found = TOKEN.search(str(call.args))
    return found.group() if found else ""


def _saved(call: Call) -> bool:
    return call.is_ok and call.data.get("saved", 1) == 1


def _is_unique(call: Call) -> bool:
    return any("client_message_id" in message for message in call.args.get("outbox", ()))


def _count_tokens(epoch: Epoch) -> Counter[tuple[str, str]]:
    return Counter(
        (table, token)
        for table in ("messages", "room_events", "protocol_events")
        for row in epoch.tables.get(table, ())
        # A row may name its token twice, as text and as client_message_id.
        for token in {*TOKEN.findall(" ".join(map(str, row.values())))}
    )


def marks_and_reservations_stay(history: History) -> Found:
    for epoch, calls in _inside(history):
        # A claim that was given back reopens its HANDOFF.
        reopened = {
            row["event_id"] for row in epoch.tables.get("protocol_events", ()) if row["event_type"] == "HANDOFF"
        }
        accepted = {row["event_id"] for row in epoch.tables.get("protocol_events", ()) if row["state"] == "accepted"}
        reserved = {row["reservation_id"] for row in epoch.tables.get("reservations", ())}
        for call in calls:
            if not call.is_ok or call.ended >= epoch.closing:
                continue
            if (
                call.tool == "event_mark"
                and call.data["state"] == "accepted"
                and call.data["event_id"] not in accepted | reopened
            ):
                yield "an acknowledged mark is not stored", [call]
            if call.tool == "scope_reserve" and call.data["reservation_id"] not in reserved:
                yield "an acknowledged reservation is not stored", [call]


def a_restore_brings_everything_back(history: History) -> Found:
    for epoch in history.epochs:
        for table, key in (("messages", "message_id"), ("room_events", "event_id"), ("reservations", "reservation_id")):
            missing = _keys(epoch.base, table, key) - _keys(epoch.tables, table, key)
            if missing:
                yield f"{table} of the backup are missing: {sorted(missing)[:3]}", []


def _keys(tables: dict[str, list[Object]], table: str, key: str) -> set[str]:
    return {row[key] for row in tables.get(table, ())}


# -- messages


def messages_are_numbered_without_gaps(history: History) -> Found:
    for epoch in history.epochs:
        topics = defaultdict(list)
        for row in epoch.tables.get("messages", ()):
            topics[row["topic_id"]].append(row["seq"])
        for topic_id, numbers in topics.items():
            if sorted(numbers) != list(range(1, len(numbers) + 1)):
                yield f"the numbers of topic {topic_id} have gaps", []


def all_clients_see_one_stream(history: History) -> Found:
    """A number of a topic means one message, in every reply and in the store."""
    for epoch, calls in _inside(history):
        meaning = {(row["topic_id"], row["seq"]): row["message_id"] for row in epoch.tables.get("messages", ())}
        for call in calls:
            if call.tool == "sync" and call.is_ok:
                for seq, message_id in call.data["received"] + call.data["sent"]:
                    if meaning.setdefault((call.data["topic_id"], seq), message_id) != message_id:
                        yield f"#{seq} is two messages", [call]


def readers_miss_nothing_and_read_once(history: History) -> Found:
    """A cursor passes only what was in a reply. A reply repeats only what a lost or interrupted one may have held."""
    authors = {_token_of(call): call.agent_id for call in history.calls if call.tool in _TABLES}
    for epoch, calls in _inside(history):
        streams = _streams(epoch, authors)
        readings = [c for c in calls if c.tool in ("sync", "cursor_reset") and c.args.get("auto_advance", True)]
        for (reader, topic_id), own in _group(readings, lambda c: (c.agent_id, c.args["topic_id"])).items():
            yield from _follow(own, streams[topic_id], reader, history.signals)


def _streams(epoch: Epoch, authors: dict[str, str]) -> dict[str, dict[int, str]]:
    """The author of every message of every topic, by number."""
    streams: dict[str, dict[int, str]] = defaultdict(dict)
    for row in epoch.tables.get("messages", ()):
        found = TOKEN.search(row["content_markdown"])
        streams[row["topic_id"]][row["seq"]] = authors.get(found.group(), "") if found else ""
    return streams


def _follow(calls: list[Call], stream: dict[int, str], reader: str, signals: list[Signal]) -> Found:
    before: Call | None = None  # the last reading, if its reply was read
    doubtful = -math.inf  # until when a lost reading may still move the cursor
    had: set[int] = set()  # since the last reset; the server of a killed agent may move the cursor late, past these
    for call in calls:
        if not call.is_ok or call.tool == "cursor_reset":
            if call.is_ok or call.may_have_acted:
                before = None
                doubtful = max(doubtful, call.over)
                had = set() if call.tool == "cursor_reset" else had
            continue
        seen = {seq for seq, _ in call.data["received"]}
        if before is not None and max(doubtful, before.ended) < call.began and doubtful < before.ended:
            yield from _compare(before, call, seen, had, stream, reader, signals)
        before, had = call, had | seen


def _compare(
    before: Call, call: Call, seen: set[int], had: set[int], stream: dict[int, str], reader: str, signals: list[Signal]
) -> Found:
    cursor = before.data["cursor"]
    due = {n for n in range(cursor + 1, call.data["cursor"] + 1) if stream.get(n, reader) != reader}
    if missing := due - seen - had:
        yield f"#{min(missing)} was never delivered", [before, call]
    if any(seq <= cursor for seq in seen) and not _was_disturbed(signals, before, call):
        yield f"#{min(seen)} was delivered twice", [before, call]


def _was_disturbed(signals: list[Signal], before: Call, call: Call) -> bool:
    """Whether the server may have died after its reply and before it moved the cursor."""
    concerning = [signal for signal in signals if signal.player in (-1, call.player)]
    return any(signal.at < call.ended and before.began < max(signal.at, signal.over) for signal in concerning)


# -- reservations


def reservations_never_overlap(history: History) -> Found:
    """In the store: replayed from the record of changes, at no time had two agents reserved the same path."""
    for epoch in history.epochs:
        keys = {row["reservation_id"]: row["scope_key"] for row in epoch.tables.get("reservations", ())}
        rooms = defaultdict(list)
        for row in epoch.tables.get("room_activity", ()):
            rooms[row["room_id"]].append(row)
        for rows in rooms.values():
            yield from _replay(sorted(rows, key=lambda row: row["number"]), keys)


def _replay(rows: list[Object], keys: dict[str, str]) -> Found:
    owners: dict[str, str] = {}  # of the reservations that are active
    for number, row in enumerate(rows):
        subject, agent_id = row["subject_id"], row["agent_id"]
        if row["kind"] in ("reserved", "renewed"):
            # If the reply of an adoption is lost, its reservations go back to their first owner, all at once.
            for each in _going_back(rows[number:], owners):
                owners[each] = agent_id
            owners[subject] = agent_id
            others = [each for each, owner in owners.items() if owner != agent_id]
            if met := [each for each in others if _overlap(keys[each], keys[subject])]:
                yield f"{subject} of {agent_id} overlaps {met} of {[owners[each] for each in met]}", []
        elif row["kind"] in ("released", "expired"):
            owners.pop(subject, None)
        elif row["kind"] == "RESUME":
            prior = json.loads(row["details_json"])["prior_agent_id"]
            owners |= {each: agent_id for each, owner in owners.items() if owner == prior}


def _going_back(rows: list[Object], owners: dict[str, str]) -> Iterator[str]:
    """The reservations that the first of these rows, and those right after it, give to the same agent."""
    for row in rows:
        owner = owners.get(row["subject_id"])
        if row["kind"] != "renewed" or row["agent_id"] != rows[0]["agent_id"] or owner in (None, row["agent_id"]):
            return
        yield row["subject_id"]


def _overlap(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def a_reserved_path_is_not_granted(history: History) -> Found:
    """For the clients: a path is granted only after its holder began to give it up, or when the reply names it."""
    for _, calls in _inside(history):
        for in_room in _group(calls, _room).values():
            granted = [call for call in in_room if call.tool == "scope_reserve" and call.is_ok]
            taken = {each for call in granted for each in call.data["taken_over"]}
            losses = [call for call in in_room if call.tool in _LOSSES and call.may_have_acted]
            held: list[tuple[Call, float]] = []  # each with the moment from which it may have been given up
            for grant in granted:
                held = [(each, until) for each, until in held if until >= grant.began]
                for each, until in held:
                    if until >= grant.ended and _collide(each, grant):
                        yield "a reserved path was granted", [each, grant]
                if grant.data["reservation_id"] not in taken:
                    held.append((grant, _given_up_at(grant, losses)))


_LOSSES = ("scope_release", "leave_path", "close_room", "agent_adopt", "scope_reserve")


def _collide(earlier: Call, later: Call) -> bool:
    return (
        earlier.agent_id != later.agent_id
        and earlier.ended < later.began
        and _overlap(_key(earlier), _key(later))
        and later.wall < _seconds(earlier.data["expires_at"])
    )


def _key(call: Call) -> str:
    return f"/{call.args['scope'].removesuffix('*').strip('/')}/"


def _given_up_at(grant: Call, losses: list[Call]) -> float:
    return min((loss.began for loss in losses if loss.ended > grant.began and _may_end(loss, grant)), default=math.inf)


def _may_end(loss: Call, grant: Call) -> bool:
    """Whether a call may have ended a reservation."""
    if loss.tool == "scope_reserve":  # a reply that was read names what it took
        return not loss.is_ok and bool(loss.args["takeover_stale"]) and _overlap(_key(loss), _key(grant))
    if loss.tool == "scope_release":
        return (loss.agent_id, loss.args["scope"]) == (grant.agent_id, grant.args["scope"])
    if loss.tool == "agent_adopt":
        return bool(loss.data.get("prior", grant.agent_id) == grant.agent_id)
    return loss.tool == "close_room" or loss.agent_id == grant.agent_id


# -- everything


def every_call_is_answered(history: History) -> Found:
    for call in history.calls:
        if call.outcome == "unanswered":
            yield "a living server did not reply", [call]


def no_defect_is_reported(history: History) -> Found:
    for call in history.calls:
        if call.code == "internal_error":
            yield "a call failed with internal_error", [call]
    for traceback in history.tracebacks:
        yield f"a traceback on standard error: {traceback}", []


def the_store_is_sound(history: History) -> Found:
    """A deletion or an older copy can cost changes. Then the store says so until it is restored or wiped."""
    told, may_miss = "1 problem found", False
    for epoch in history.epochs:
        for problem in epoch.problems:
            if not (may_miss and told in problem and "'Changes made before" in problem):
                yield f"conch db verify: {problem}", []
        may_miss = epoch.disaster in ("delete", "overwrite") or (may_miss and epoch.disaster not in ("wipe", "restore"))


RULES: tuple[Rule, ...] = (
    each_turn_has_one_owner,
    nothing_succeeds_with_an_old_turn,
    a_held_stick_is_not_claimed,
    an_owner_with_time_left_keeps_the_stick,
    a_lost_store_takes_its_leases_with_it,
    writes_are_stored_as_often_as_acknowledged,
    marks_and_reservations_stay,
    a_restore_brings_everything_back,
    messages_are_numbered_without_gaps,
    all_clients_see_one_stream,
    readers_miss_nothing_and_read_once,
    reservations_never_overlap,
    a_reserved_path_is_not_granted,
    every_call_is_answered,
    no_defect_is_reported,
    the_store_is_sound,
)
