"""The commands with which a person steps in between agents.

Most need a reason. All are recorded under the person's name.
"""

from __future__ import annotations

import os

from conch.agents.people import Person, recognise_person
from conch.agents.signals import gather_signals
from conch.clock import to_iso
from conch.doors.cli.context import Context, find_member, nameable
from conch.doors.cli.guardian import keep_lease, lease_text
from conch.doors.cli.handoffs import labelled, last_handoff_text, read_handoff
from conch.doors.cli.messages import find_message
from conch.doors.cli.output import Report
from conch.doors.cli.paging import fitting
from conch.doors.cli.scopes import from_here, release_all
from conch.errors import ConchError, InvalidArgument, PersonRequired, some_of
from conch.lean import TYPE_CHECKING, Any
from conch.overseeing.steering import Steering
from conch.tools import scopes_view, turns_view
from conch.tools.replies import Delivery, Object, known
from conch.tools.text import one_line
from conch.turns.waiting import Takeover

if TYPE_CHECKING:
    from conch.scopes.overlaps import Reservation

_STILL_READ = (
    "Another process is reading the store, so the file beside it (-wal) may still have the text. Run the same command "
    "again when that process has finished."
)
_NOT_REACHED = "Agents that have read the message still know it: change the secret."


def _person(context: Context) -> Person:
    if getattr(context.options, "agent", None) is not None:
        raise PersonRequired("Only a person can do this, under their own name: leave out --agent.", reason="chosen_id")
    signals = gather_signals("cli", os.environ, None)
    return recognise_person(context.app.store, context.caller, signals, os.environ)


def _find(context: Context, text: str, field: str) -> str:
    """The agent_id of the member that a person means."""
    snapshot = context.room
    named = context.present_name(text, snapshot.room.topic_id)
    return find_member(nameable(snapshot, named), named, field)


def _reason(context: Context) -> str:
    reason: str | None = context.options.reason
    if reason is None:
        raise InvalidArgument("--reason is required: it is recorded under your name.", field="reason")
    return reason


def refuse_reason(context: Context, without: str) -> None:
    """Refuse a reason that nothing would record."""
    if context.options.reason is not None:
        raise InvalidArgument(f"--reason is only for a person who steps in with {without}.", field="reason")


def take(context: Context) -> Report:
    """`conch take --force`: the stick, even from an agent that still has time."""
    person, claims = _person(context), context.app.claims
    taken = Steering(context.app).take(person, context.room_id, context.options.reason)
    data = {
        **turns_view.lease(taken.room),
        "revoked": taken.revoked,
        "last_handoff": turns_view.last_handoff(taken.last_handoff),
        "notes": [turns_view.note(event) for event in reversed(taken.notes)],
    }
    delivery = Delivery(
        sent=lambda: keep_lease(context, data), not_sent=lambda: _ignore(claims.give_back(person.caller, taken.claim))
    )
    return taken_report(context, data, taken)._replace(delivery=delivery)


def _ignore(_: Any) -> None:
    pass


def taken_report(context: Context, data: Object, taken: Takeover) -> Report:
    """What the taker of the stick sees, with the newest notes that fit. Only `data` begins with the oldest."""
    notes = data["notes"]

    def render(number: int) -> Report:
        few = taken._replace(notes=taken.notes[:number])
        return Report({**data, "notes": notes[len(notes) - number :]}, _taken_text(context, few))

    length = fitting(context, len(notes), render)
    report = render(length)
    if length == len(taken.notes):
        return report
    more = f"There are older notes: `conch events --after {taken.since}`."
    shown = {**(report.data or {}), "has_more": True, "cursor": str(taken.since)}
    return report._replace(data=shown, text=f"{report.text}\n{more}")


def _taken_text(context: Context, taken: Takeover) -> str:
    lease = turns_view.lease(taken.room)
    return "\n".join([
        f"The stick is yours (turn {lease['turn_id']}), taken from {taken.loser}. {lease_text(context, lease)}",
        last_handoff_text(taken.last_handoff),
        *(labelled("note", f"{note.details['note']} ({note.who(note.from_agent_id)})") for note in taken.notes[::-1]),
    ])  # fmt: skip


def pass_for(context: Context) -> Report:
    """`conch pass --for AGENT --to AGENT`."""
    person, reason = _person(context), _reason(context)
    agent_id, to = _find(context, context.options.holder, "agent"), _find(context, context.options.to, "to_agent_id")
    handoff = read_handoff(context.options) or None
    passed = Steering(context.app).pass_for(person, context.room_id, agent_id, to, reason, handoff)
    offer, revoked = passed.offer, passed.revoked
    data = known(
        room_id=offer.room.room_id,
        revoked=revoked.agent_id,
        state=offer.room.state,
        reserved_for=offer.room.reserved_for,
        recipient_status=offer.recipient_status,
        claim_expires_at=to_iso(offer.room.claim_expires_at),
        event_seq=offer.event_seq,
    )
    text = f"You passed the stick of {revoked.label} to {offer.recipient}, who is {offer.recipient_status}."
    return Report(data, text)


def nudge(context: Context) -> Report:
    person, agent_id = _person(context), _find(context, context.options.holder, "agent")
    sent = Steering(context.app).nudge(person, context.room_id, agent_id, context.options.text)
    data = {
        "room_id": context.room_id,
        "agent_id": agent_id,
        "topic_id": sent.topic_id,
        "message_id": sent.message_id,
        "seq": sent.seq,
    }
    return Report(
        data, f"Asked {context.room.who(agent_id)} to hand over (#{sent.seq}). It sees that in its next reply."
    )


def unreserve(context: Context) -> Report:
    """Release the caller's own reservations or, with `--of AGENT`, end those of an agent."""
    if context.options.of is None:
        refuse_reason(context, "--of")
        return release_all(context)
    person, reason, options = _person(context), _reason(context), context.options
    agent_id = _find(context, options.of, "agent")
    scopes = [str(from_here(context, scope)) for scope in options.scope]
    ended: list[Reservation] = []
    try:
        for scope in scopes:
            ended.append(Steering(context.app).unreserve(person, context.room_id, agent_id, scope, reason))
    except ConchError as refusal:
        if ended:
            refusal.add_cause(f"Ended before this: {some_of([each.spelled for each in ended])}.")
        raise
    lines = [f"You ended the reservation of {one_line(each.spelled)} by {each.label}." for each in ended]
    return Report({"reservations": [scopes_view.reservation(each) for each in ended]}, "\n".join(lines))


def redact(context: Context) -> Report:
    """Remove the text of a message from the store, its index, `-wal`, free pages and everything that repeats it."""
    person, options, store = _person(context), context.options, context.app.store
    message_id = options.message
    if message_id.removeprefix("#").isdecimal():
        message_id = find_message(context, context.topic_id, message_id) or message_id
    secret = _ask_secret() if options.secret else None
    redacted = Steering(context.app).redact(person, message_id, options.reason, secret)
    is_tidy, copies, message = store.tidy(compact=True), store.copies(), redacted.message
    lines = [f"Redacted message #{message.seq} of {message.sender_label}. The next search builds the index again."]
    if redacted.repeats:
        places = "one place" if redacted.repeats == 1 else f"{redacted.repeats} places"
        lines.append(f"It was also removed from {places} that repeated it.")
    lines += [f"It is still in {', '.join(redacted.kept)}, which this command leaves."] if redacted.kept else []
    lines += [_STILL_READ] if not is_tidy else []
    lines += ["Copies that were made before still have it:", *map(one_line, copies)] if copies else []
    data = {
        "message_id": message.message_id,
        "topic_id": message.topic_id,
        "seq": message.seq,
        "repeats": redacted.repeats,
        "kept": redacted.kept,
        "is_clean": is_tidy,
        "copies": copies,
    }
    return Report(data, "\n".join([*lines, _NOT_REACHED]))


def _ask_secret() -> str:
    from getpass import getpass  # an option would stay in the shell's history

    return getpass("The secret itself, to remove it from every text: ").strip()


def free_name(context: Context) -> Report:
    person, topic_id = _person(context), context.topic_id
    name = Steering(context.app).free_name(person, topic_id, context.options.name)
    return Report({"topic_id": topic_id, "agent_name": name}, f"{one_line(name)} is free on {topic_id}.")


def kick(context: Context) -> Report:
    person, agent_id = _person(context), _find(context, context.options.holder, "agent")
    kicked = Steering(context.app).kick(person, context.room_id, agent_id, context.options.reason)
    scopes = [each.scope for each in kicked.released]
    lines = [f"{kicked.member.label} is no longer a member."]
    lines += ["The stick is free; the next agent that waits gets it."] if kicked.opens_stick else []
    lines += [f"Its reservations have ended: {one_line(', '.join(scopes))}."] if scopes else []
    data = {
        "room_id": kicked.room.room_id,
        "agent_id": agent_id,
        "name": kicked.member.name,
        "opens_stick": kicked.opens_stick,
        "released": scopes,
    }
    return Report(data, "\n".join(lines))
