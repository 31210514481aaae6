"""A short run on each engine breaks no rule, and a history planted against a rule is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.torture import rules
from tests.torture.history import Call, Epoch, History, Signal, load_history
from tests.torture.rules import RULES, Rule, check

ROOT = Path(__file__).parents[2]
SOON = "2026-11-16T12:00:10.000Z"
NOON = 1_794_830_400.0
TOKEN = "w1-0-1w"


def call(tool: str, began: float, agent_id: str = "a:1", outcome: str = "ok", **facts: Any) -> Call:
    """A call that took one second. `data` is what came back; everything else is an argument, or the code."""
    data, code, ended = facts.pop("data", {}), facts.pop("code", ""), facts.pop("ended", began + 1)
    player = int(agent_id[-1])
    return Call(player, agent_id, tool, facts, began, ended, outcome, code, data, NOON + ended, ended)


def claim(began: float, agent_id: str, turn_id: int, lease_id: str, **facts: Any) -> Call:
    data = {"room_id": "r", "turn_id": turn_id, "lease_id": lease_id, "lease_expires_at": SOON}
    return call(facts.pop("tool", "wait_for_turn"), began, agent_id, room_id="r", data=data, **facts)


def already_owner(began: float, agent_id: str, turn_id: int) -> Call:
    found = claim(began, agent_id, turn_id, "k")
    return found._replace(data={**found.data, "reason": "already_owner"})


def lost_takeover(began: float, agent_id: str, turn_id: int) -> Call:
    return call("takeover_stick", began, agent_id, outcome="lost", room_id="r", expected_turn_id=turn_id)


def heartbeat(began: float, turn_id: int, lease_id: str) -> Call:
    return call("heartbeat", began, room_id="r", expected_turn_id=turn_id, lease_id=lease_id)


def release(began: float, turn_id: int, **facts: Any) -> Call:
    handoff = {"status": "w1-0-9w"}
    return call("release_stick", began, room_id="r", expected_turn_id=turn_id, lease_id="l", handoff=handoff, **facts)


def send(began: float, unique: bool = False, topic_id: str = "t", **facts: Any) -> Call:
    sent = {"content_markdown": TOKEN} | ({"client_message_id": TOKEN} if unique else {})
    facts.setdefault("data", {"received": [], "sent": [], "cursor": 0, "topic_id": topic_id})
    return call("sync", began, topic_id=topic_id, outbox=[sent], auto_advance=False, **facts)


def read(began: float, received: list[int], cursor: int, **facts: Any) -> Call:
    data = {"received": [(seq, f"m{seq}") for seq in received], "sent": [], "cursor": cursor, "topic_id": "t"}
    return call("sync", began, topic_id="t", data=data, **facts)


def reserve(began: float, agent_id: str, scope: str, reservation_id: str) -> Call:
    data = {"reservation_id": reservation_id, "scope": scope, "expires_at": "2026-11-16T14:00:00Z", "taken_over": []}
    return call("scope_reserve", began, agent_id, room_id="r", scope=scope, takeover_stale=False, data=data)


def message(seq: int, text: str = "") -> dict[str, Any]:
    return {"topic_id": "t", "seq": seq, "message_id": f"m{seq}", "content_markdown": text, "client_message_id": None}


def activity(number: int, kind: str, agent_id: str, subject_id: str) -> dict[str, Any]:
    return {"number": number, "room_id": "r", "kind": kind, "agent_id": agent_id, "subject_id": subject_id}


def history(
    *calls: Call, epochs: list[Epoch] | None = None, signals: list[Signal] | None = None, **tables: Any
) -> History:
    """Calls on one store, which holds these rows at the end."""
    return History(list(calls), signals or [], epochs or [Epoch(began=0, closing=90, ended=99, tables=tables)], [])


STREAM = [message(seq, f"w2-0-{seq}w") for seq in (1, 2, 3)]
SCOPES = [{"reservation_id": "1", "scope_key": "/a/"}, {"reservation_id": "2", "scope_key": "/a/1.py/"}]

MISSING = "1 problem found, 'problem': 'Changes made before noon are missing'"

PLANTED: list[tuple[Rule, History]] = [
    (rules.each_turn_has_one_owner, history(claim(1, "a:1", 1, "l"), claim(1, "b:2", 1, "k"))),
    (rules.nothing_succeeds_with_an_old_turn, history(claim(1, "b:2", 2, "k"), heartbeat(3, 1, "l"))),
    (rules.nothing_succeeds_with_an_old_turn, history(claim(1, "a:1", 1, "l"), claim(3, "b:2", 2, "k"), release(5, 1))),
    (rules.nothing_succeeds_with_an_old_turn, history(claim(1, "b:2", 2, "k"), claim(3, "a:1", 1, "l"))),
    (rules.a_held_stick_is_not_claimed, history(claim(1, "a:1", 1, "l"), claim(3, "b:2", 2, "k"))),
    (
        rules.a_held_stick_is_not_claimed,
        history(claim(1, "a:1", 1, "l"), release(2, 1, outcome="refused"), claim(3, "b:2", 2, "k")),
    ),
    (
        rules.a_held_stick_is_not_claimed,
        history(claim(1, "a:1", 1, "l"), lost_takeover(3, "c:3", 1), already_owner(5, "b:2", 2)),
    ),
    (
        rules.an_owner_with_time_left_keeps_the_stick,
        history(claim(1, "a:1", 1, "l"), claim(3, "b:2", 2, "k", tool="takeover_stick")),
    ),
    (
        rules.a_lost_store_takes_its_leases_with_it,
        history(claim(1, "a:1", 1, "l"), heartbeat(7, 1, "l"), epochs=[Epoch(0, ended=4), Epoch(5)]),
    ),
    (
        rules.a_lost_store_takes_its_leases_with_it,
        history(claim(2, "a:1", 1, "l"), heartbeat(7, 1, "l"), epochs=[Epoch(0, ended=4), Epoch(5, kept_until=1)]),
    ),
    (rules.writes_are_stored_as_often_as_acknowledged, history(send(1))),
    (rules.writes_are_stored_as_often_as_acknowledged, history(release(1, 1))),
    (rules.writes_are_stored_as_often_as_acknowledged, history(call("append_note", 1, note="w1-0-1w"))),
    (rules.writes_are_stored_as_often_as_acknowledged, history(call("conch send", 1, text="w1-0-1w"))),
    (
        rules.writes_are_stored_as_often_as_acknowledged,
        history(send(1, outcome="refused", code="DB_BUSY"), messages=[message(1, "w1-0-1w")]),
    ),
    (
        rules.writes_are_stored_as_often_as_acknowledged,
        history(send(1), messages=[message(1, "w1-0-1w"), message(2, "w1-0-1w")]),
    ),
    (
        rules.writes_are_stored_as_often_as_acknowledged,
        history(
            send(1, unique=True, outcome="lost"), send(3, unique=True), messages=[message(1, TOKEN), message(2, TOKEN)]
        ),
    ),
    (
        rules.writes_are_stored_as_often_as_acknowledged,
        history(send(6), epochs=[Epoch(0, closing=3, ended=4), Epoch(5, closing=9)]),
    ),
    (
        rules.marks_and_reservations_stay,
        history(
            call("event_mark", 1, data={"event_id": "e", "state": "accepted"}),
            protocol_events=[{"event_id": "e", "event_type": "BLOCKED", "state": "unread"}],
        ),
    ),
    (rules.marks_and_reservations_stay, history(reserve(1, "a:1", "x", "res"))),
    (
        rules.a_restore_brings_everything_back,
        history(epochs=[Epoch(0, tables={"messages": []}, base={"messages": [message(1)]})]),
    ),
    (rules.messages_are_numbered_without_gaps, history(messages=[message(1), message(3)])),
    (
        rules.all_clients_see_one_stream,
        history(read(1, [1], 1), messages=[{**message(1), "message_id": "another"}]),
    ),
    (rules.readers_miss_nothing_and_read_once, history(read(1, [1], 1), read(3, [3], 3), messages=STREAM)),
    (rules.readers_miss_nothing_and_read_once, history(read(1, [1], 1), read(3, [], 3), messages=STREAM)),
    (rules.readers_miss_nothing_and_read_once, history(read(1, [1, 2], 2), read(3, [2, 3], 3), messages=STREAM)),
    (
        rules.reservations_never_overlap,
        history(
            reservations=SCOPES,
            room_activity=[activity(1, "reserved", "a:1", "1"), activity(2, "reserved", "b:2", "2")],
        ),
    ),
    (
        rules.reservations_never_overlap,
        history(
            reservations=SCOPES,
            room_activity=[
                activity(1, "reserved", "a:1", "1"),
                {**activity(2, "RESUME", "b:2", "e"), "details_json": '{"prior_agent_id": "a:1"}'},
                activity(3, "reserved", "b:2", "2"),
                activity(4, "renewed", "a:1", "1"),
            ],
        ),
    ),
    (rules.a_reserved_path_is_not_granted, history(reserve(1, "a:1", "a/*", "1"), reserve(3, "b:2", "a/1.py", "2"))),
    (rules.every_call_is_answered, history(call("ping", 1, outcome="unanswered"))),
    (rules.no_defect_is_reported, history(call("ping", 1, outcome="refused", code="internal_error"))),
    (rules.no_defect_is_reported, history()._replace(tracebacks=["Traceback"])),
    (rules.the_store_is_sound, history(epochs=[Epoch(0, problems=["a hole"])])),
    (rules.the_store_is_sound, history(epochs=[Epoch(0, problems=[MISSING])])),
    (rules.the_store_is_sound, history(epochs=[Epoch(0, disaster="restore"), Epoch(1, problems=[MISSING])])),
]

INNOCENT: dict[str, History] = {
    "a store that misses changes after an older copy, and says so": history(
        epochs=[Epoch(0, disaster="overwrite"), Epoch(1, problems=[MISSING])]
    ),
    "a cursor that a killed server moved late, past what its agent had received": history(
        read(1, [1, 2, 3], 3), read(4, [1], 1), read(6, [4], 4), messages=STREAM, signals=[Signal(2, "KILL player", 1)]
    ),
    "a takeover whose reply was lost": history(
        claim(1, "a:1", 1, "l"), lost_takeover(3, "b:2", 1), already_owner(5, "b:2", 2)
    ),
    "a turn that was let go": history(
        claim(1, "a:1", 1, "l"),
        release(3, 1, outcome="refused", code="DB_UNCERTAIN"),
        claim(5, "b:2", 2, "k"),
    ),
    "an owner that was killed": history(
        claim(1, "a:1", 1, "l"),
        claim(4, "b:2", 2, "k", tool="takeover_stick", reason="gone"),
        signals=[Signal(3, "KILL player", 1)],
    )._replace(epochs=[Epoch(0)]),
    "a reply that was lost": history(
        send(1, outcome="lost", ended=float("inf")), send(3), messages=[message(1, "w1-0-1w"), message(2, "w1-0-1w")]
    ),
    "a message that is sent again to another topic": history(
        send(1, unique=True, outcome="lost", topic_id="t"),
        send(3, unique=True, topic_id="u"),
        messages=[message(1, TOKEN), {**message(1, TOKEN), "topic_id": "u"}],
    ),
    "a cursor that a killed server did not move": history(
        read(1, [1, 2], 2), read(4, [2, 3], 3), messages=STREAM, signals=[Signal(3, "KILL server", 1)]
    ),
    "the database was being restarted when the cursor should have moved": history(
        read(1, [1, 2], 2), read(4, [2, 3], 3), messages=STREAM, signals=[Signal(0.5, "restart database", -1, 2)]
    ),
    "reservations that an adoption gave back at once": history(
        reservations=SCOPES,
        room_activity=[
            activity(1, "reserved", "a:1", "1"),
            activity(2, "reserved", "a:1", "2"),
            {**activity(3, "RESUME", "b:2", "e"), "details_json": '{"prior_agent_id": "a:1"}'},
            activity(4, "renewed", "a:1", "1"),
            activity(5, "renewed", "a:1", "2"),
        ],
    ),
    "a path that was released": history(
        reserve(1, "a:1", "a/*", "1"),
        call("scope_release", 3, room_id="r", scope="a/*"),
        reserve(5, "b:2", "a/1.py", "2"),
        reservations=SCOPES,
        room_activity=[
            activity(1, "reserved", "a:1", "1"),
            activity(2, "released", "a:1", "1"),
            activity(3, "reserved", "b:2", "2"),
        ],
    ),
}


@pytest.mark.parametrize(("rule", "planted"), PLANTED, ids=lambda each: getattr(each, "__name__", ""))
def test_a_planted_violation_is_found(rule: Rule, planted: History) -> None:
    assert list(rule(planted))


def test_every_rule_has_a_planted_violation() -> None:
    assert {rule for rule, _ in PLANTED} == set(RULES)


@pytest.mark.parametrize("innocent", INNOCENT.values(), ids=INNOCENT.keys())
def test_the_benefit_of_the_doubt(innocent: History) -> None:
    assert check(innocent) == []


def test_a_killed_process_loses_no_finished_line(tmp_path: Path) -> None:
    (tmp_path / "killer.jsonl").write_text('{"reaped": 7, "at": 5.0}\n{"signal": "KILL pl')
    (tmp_path / "player-1-0.jsonl").write_text(
        '{"server": 7}\n{"call": 1, "agent_id": "a:1", "tool": "ping", "args": {}, "began": 1.0}\n{"reply": 1, "en'
    )

    (lost,) = load_history(tmp_path).calls

    assert (lost.outcome, lost.over) == ("lost", 5.0)


@pytest.mark.skipif(sys.platform != "linux", reason="the killer needs pidfds and /proc")
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_short_torture_breaks_no_rule(engine: str) -> None:
    command = [sys.executable, "-m", "tests.torture", "--engine", engine, "--seconds", "15"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the soak reads /proc")
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_short_soak_prints_its_table_and_no_verification_is_wrong_while_agents_write(engine: str) -> None:
    command = [sys.executable, "-m", "tests.torture.soak", "--seconds", "4", "--engine", engine, "--verify"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "| threads |" in done.stdout
    assert "verifications found nothing" in done.stdout and "\n0 verifications" not in done.stdout
