"""Planted bugs: each breaks one rule, in the way that a careless change of conch would.

A bug replaces a function or a statement while it is in place. The search must find it, which shows that the rule can
fail and that the search gets there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from tests.explore import invariants
from tests.explore.scenarios import LOST_REPLIES, MESSAGES, QUESTIONS, RESERVATIONS, ROOM, STICK
from tests.explore.search import Scenario

from conch.bus import questions, stream, sync
from conch.members import membership
from conch.rooms import log, presence, room
from conch.scopes import overlaps, reservations
from conch.storage.sqlite.transaction import SqliteTransaction
from conch.turns import stick, waiting

Patch = pytest.MonkeyPatch


class Bug(NamedTuple):
    plant: Callable[[Patch], None]
    rule: Callable[..., None]
    scenario: Scenario


def skip_the_fencing_check(patch: Patch) -> None:
    patch.setattr(presence, "_require_lease", lambda snapshot, caller, lease: None)


def accept_any_lease_of_this_turn(patch: Patch) -> None:
    patch.setattr(
        presence,
        "_require_lease",
        lambda snapshot, caller, lease: presence.require_turn(snapshot, caller, lease.turn_id),
    )


def claim_after_a_stale_look(patch: Patch) -> None:
    """The classic race: decide on what a read transaction saw, and write without looking again."""

    def claim_or_renew(self: Any, caller: Any, room_id: str, call: Any, *_: Any) -> Any:
        with self._store.write(room_id) as tx:
            found = looks.pop(caller.agent_id, None) or real(self, tx, self._rooms.load(tx, room_id), caller)
            return self._claim(tx, found, caller, call) if found.status == "your_turn" and not found.claim else found

    def judge(self: Any, tx: Any, snapshot: Any, caller: Any) -> Any:
        looks[caller.agent_id] = found = real(self, tx, snapshot, caller)
        return found

    looks: dict[str, Any] = {}
    real = waiting.Claims._judge
    patch.setattr(waiting.Claims, "_claim_or_renew", claim_or_renew)
    patch.setattr(waiting.Claims, "_judge", judge)


def claim_without_a_new_turn(patch: Patch) -> None:
    _change_events(patch, waiting, "claim", lambda at, given: given | {"turn_id": at.turn_id})


def skip_a_turn_at_takeover(patch: Patch) -> None:
    _change_events(patch, waiting, "takeover", lambda at, given: given | {"turn_id": at.turn_id + 2})


def take_over_at_any_time(patch: Patch) -> None:
    patch.setattr(room.Snapshot, "takeover_reason", property(lambda self: self.expected and "owner_timeout"))


def leave_with_the_stick(patch: Patch) -> None:
    patch.setattr(membership, "StickHeld", _Ignored)
    real = membership.Membership.leave_path

    def leave(self: Any, caller: Any, room_id: str) -> Any:
        try:
            return real(self, caller, room_id)
        except _Ignored:
            with self._rooms.change(caller, room_id) as (tx, snapshot):
                self._log(tx, snapshot, "leave", caller)
                tx.run("delete_member", room_id=room_id, agent_id=caller.agent_id)

    patch.setattr(membership.Membership, "leave_path", leave)


def keep_the_offer_of_one_who_leaves(patch: Patch) -> None:
    real = log.project
    patch.setattr(log, "project", lambda at, event: at if event.event_type == "leave" else real(at, event))


def offer_without_a_deadline(patch: Patch) -> None:
    _change_rooms(patch, stick, lambda at: at._replace(claim_expires_at=None))


def close_with_a_lease_left_over(patch: Patch) -> None:
    _change_rooms(patch, membership, lambda at: at._replace(lease_expires_at=1) if at.state == "closed" else at)


def claim_without_the_handoff(patch: Patch) -> None:
    patch.setattr(waiting, "_your_turn", lambda snapshot, reason, event: waiting.Wait("your_turn", snapshot, reason))


def reorder_only_the_log(patch: Patch) -> None:
    _change_statement(patch, "update_ordinal", "SELECT 1")


def never_open_a_takeover(patch: Patch) -> None:
    patch.setattr(room.Snapshot, "takeover_reason", property(lambda self: None))


def never_let_the_last_owner_take_over(patch: Patch) -> None:
    real = room.Snapshot.may_take_over
    patch.setattr(
        room.Snapshot, "may_take_over", lambda self, agent, prior: agent != prior and real(self, agent, prior)
    )


def trust_a_dead_process(patch: Patch) -> None:
    """A member that comes back in a new process is refused because its old one is gone."""
    patch.setattr(presence, "_is_gone", lambda member, caller: presence.processes.check(member.process) == "gone")
    patch.setattr(membership.Membership, "_seat", _seat_without_the_process(membership.Membership._seat))


def keep_the_mark_of_a_dead_process(patch: Patch) -> None:
    """A member that comes back in a new process is still passed over."""
    columns = ("host_id", "boot_id", "pid", "process_started_at", "session_kind", "display_name")
    changes = ", ".join(f"{column} = :{column}" for column in columns)
    where = "WHERE room_id = :room_id AND agent_id = :agent_id"
    _change_statement(patch, "update_member_process", f"UPDATE room_members SET {changes} {where}")


def overlook_folders_above(patch: Patch) -> None:
    real = overlaps.find_overlapping
    patch.setattr(
        reservations,
        "find_overlapping",
        lambda tx, snapshot, wanted: [held for held in real(tx, snapshot, wanted) if held.kind == "exact"],
    )


def take_reservations_from_the_living(patch: Patch) -> None:
    patch.setattr(room.Snapshot, "liveness", lambda self, agent: "stale")


def keep_reservations_after_leaving(patch: Patch) -> None:
    patch.setattr(membership, "release_all", lambda tx, snapshot, agent_id: None)


def never_give_up_a_stale_reservation(patch: Patch) -> None:
    patch.setattr(room.Snapshot, "liveness", lambda self, agent: "active")
    real = overlaps.to_reservation
    patch.setattr(overlaps, "to_reservation", lambda row, snapshot: real({**row, "expires_at": 2**62}, snapshot))


def lose_a_seq(patch: Patch) -> None:
    _change_parameters(patch, "move_seqs", lambda given: given | {"count": given["count"] + 1})


def move_the_cursor_past_the_end(patch: Patch) -> None:
    _change_parameters(patch, "move_cursor", lambda given: given | {"last_seq": given["last_seq"] + 1})


def move_the_cursor_back(patch: Patch) -> None:
    """A delivery is taken back, but no reset is counted, so a reply under way may still move the cursor."""
    _change_statement(patch, "set_cursor_back", "UPDATE cursors SET last_seq = :last_seq WHERE peer_id = :peer_id")


def advance_past_what_was_not_sent(patch: Patch) -> None:
    patch.setattr(sync.Page, "last_seq", property(lambda self: self.standing.highest_seq))


def answer_oneself(patch: Patch) -> None:
    for module in (stream, questions):
        patch.setattr(module, "find_obstacle", lambda tx, peer, question: None)


def answer_what_has_ended(patch: Patch) -> None:
    real = stream.find_obstacle
    for module in (stream, questions):
        patch.setattr(
            module, "find_obstacle", lambda tx, peer, question: real(tx, peer, {**question, "status": "pending"})
        )


# -- how they are planted


class _Ignored(Exception):
    def __init__(self, *arguments: Any, **facts: Any) -> None: ...


def _seat_without_the_process(real: Any) -> Any:
    def seat(self: Any, tx: Any, snapshot: Any, caller: Any, member: Any) -> Any:
        is_inside = snapshot.find(caller.agent_id) is not None
        return snapshot.room if is_inside else real(self, tx, snapshot, caller, member)

    return seat


def _change_events(patch: Patch, module: Any, event_type: str, change: Callable[[Any, Any], Any]) -> None:
    real = log.append_event

    def append(tx: Any, at: Any, kind: str, **given: Any) -> Any:
        return real(tx, at, kind, **(change(at, given) if kind == event_type else given))

    patch.setattr(module, "append_event", append)


def _change_rooms(patch: Patch, module: Any, change: Callable[[Any], Any]) -> None:
    patch.setattr(module, "save_room", lambda tx, at: room.save_room(tx, change(at)))


def _change_parameters(patch: Patch, statement: str, change: Callable[[Any], Any]) -> None:
    real = SqliteTransaction._execute
    patch.setattr(
        SqliteTransaction,
        "_execute",
        lambda self, name, given: real(self, name, change(given) if name == statement else given),
    )


def _change_statement(patch: Patch, statement: str, sql: str) -> None:
    real = SqliteTransaction._execute

    def execute(self: Any, name: str, given: Any) -> Any:
        return self._connection.execute(sql, given) if name == statement else real(self, name, given)

    patch.setattr(SqliteTransaction, "_execute", execute)


BUGS = (
    Bug(skip_the_fencing_check, invariants.only_the_current_lease_is_accepted, STICK),
    Bug(accept_any_lease_of_this_turn, invariants.only_the_current_lease_is_accepted, STICK),
    Bug(claim_after_a_stale_look, invariants.an_owner_with_time_left_keeps_the_stick, STICK),
    Bug(take_over_at_any_time, invariants.an_owner_with_time_left_keeps_the_stick, STICK),
    Bug(claim_without_a_new_turn, invariants.each_turn_has_one_owner, STICK),
    Bug(skip_a_turn_at_takeover, invariants.each_grant_is_a_new_turn, STICK),
    Bug(leave_with_the_stick, invariants.the_owner_is_a_member, ROOM),
    Bug(keep_the_offer_of_one_who_leaves, invariants.the_recipient_is_a_member, ROOM),
    Bug(offer_without_a_deadline, invariants.deadlines_belong_to_what_they_limit, STICK),
    Bug(close_with_a_lease_left_over, invariants.deadlines_belong_to_what_they_limit, ROOM),
    Bug(claim_without_the_handoff, invariants.a_handoff_reaches_the_next_claimer, STICK),
    Bug(reorder_only_the_log, invariants.the_log_replays_to_the_room, ROOM),
    Bug(never_open_a_takeover, invariants.every_living_agent_can_get_the_stick, STICK),
    Bug(never_let_the_last_owner_take_over, invariants.every_living_agent_can_get_the_stick, STICK),
    Bug(trust_a_dead_process, invariants.every_living_agent_can_get_the_stick, STICK),
    Bug(keep_the_mark_of_a_dead_process, invariants.only_members_that_are_gone_are_marked, STICK),
    Bug(never_give_up_a_stale_reservation, invariants.every_living_agent_can_get_the_stick, RESERVATIONS),
    Bug(overlook_folders_above, invariants.reservations_of_different_agents_are_disjoint, RESERVATIONS),
    Bug(take_reservations_from_the_living, invariants.an_active_reservation_is_not_taken, RESERVATIONS),
    Bug(keep_reservations_after_leaving, invariants.those_outside_hold_nothing, RESERVATIONS),
    Bug(lose_a_seq, invariants.the_stream_has_no_holes, MESSAGES),
    Bug(move_the_cursor_past_the_end, invariants.a_cursor_stays_within_the_stream, MESSAGES),
    Bug(move_the_cursor_back, invariants.a_cursor_moves_back_only_by_a_reset, LOST_REPLIES),
    Bug(advance_past_what_was_not_sent, invariants.a_reader_misses_nothing, MESSAGES),
    Bug(answer_oneself, invariants.answers_come_from_others_once, QUESTIONS),
    Bug(answer_what_has_ended, invariants.an_ended_question_takes_no_answer, QUESTIONS),
)
