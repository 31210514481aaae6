"""What conch does when a harness reports an event. Texts are imported late: most events have nothing to say."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from itertools import islice

from conch.agents.identity import identify, recognise
from conch.agents.records import Caller
from conch.agents.signals import gather_signals
from conch.app import App, open_app
from conch.bells.base import agent_channel
from conch.calls import retry_interrupted
from conch.harnesses.hooks import Answer, Happening
from conch.host.workspaces import canonicalize, workspace_root
from conch.lean import TYPE_CHECKING
from conch.waking.signs import Signs

if TYPE_CHECKING:
    from conch.agents.identity import Signals
    from conch.storage.base import Row

_NOTHING = Answer()
_MOST_ROOMS = 20
_MOST_NEWS = 10  # of one kind at once; the rest comes after the next tool
_After = Callable[[], None] | None


def act(happening: Happening, write: Callable[[Answer], bool]) -> None:
    """Answer an event. What was written counts as shown."""
    app = open_app(os.environ)
    try:
        if happening.kind != "start" and not app.has_store:
            return  # no agent has used conch yet, and a hook must not be the first
        answer, after = retry_interrupted(lambda: _act(_Scene(app, happening), happening.kind))
        if write(answer) and after is not None:
            after()
    finally:
        app.close()


def _act(scene: _Scene, kind: str) -> tuple[Answer, _After]:
    actions = {
        "before_tool": scene.guard,
        "after_tool": scene.deliver,
        "prompt": scene.deliver,
        "stop": scene.hold_back,
        "start": scene.begin,
        "end": scene.end,
    }
    return actions[kind]()


class _Scene:
    """One event of one agent."""

    def __init__(self, app: App, happening: Happening) -> None:
        self._app = app
        self._happening = happening
        self._cwd = happening.cwd or os.getcwd()

    # -- who

    def _signals(self) -> Signals:
        environ = {**os.environ, **self._happening.marks}
        return gather_signals("hook", environ, self._happening.harness or None)

    def _agent_id(self) -> str | None:
        return recognise(self._app.store, self._signals())

    def _caller(self) -> Caller:
        return identify(self._app.store, self._signals())

    def _rooms_of(self, agent_id: str) -> list[Row]:
        """The rooms that the agent is a member of, wherever its session has gone since, and their owners."""
        return self._app.store.glance("rooms_of_agent", agent_id=agent_id, limit=_MOST_ROOMS)

    # -- before an edit

    def guard(self) -> tuple[Answer, _After]:
        from conch.harnesses.writes import changed_paths

        paths = changed_paths(self._happening.tool, self._happening.tool_input, self._cwd)
        objections = self._app.guard.judge(self._agent_id(), paths) if paths else []
        if not objections:
            return _NOTHING, None
        from conch.doors.hook import texts

        caller = self._caller()
        for objection in objections:
            self._app.membership.join_path(caller, objection.room_path, limit=1)
            if objection.scope:
                self._app.reservations.report_incursion(caller, objection.room_id, objection.path)
        whose = caller.label if self._happening.is_subagent else ""
        refused = [objection for objection in objections if objection.is_refused]
        if refused:
            return Answer(deny=texts.refusal(refused, whose)), None
        return Answer(context=texts.caution(objections, whose)), None

    # -- between tool calls

    def deliver(self) -> tuple[Answer, _After]:
        agent_id = None if self._happening.is_subagent else self._agent_id()  # a subagent reads no mail of its parent
        if agent_id is None:
            return _NOTHING, None
        self._note_work(agent_id)
        from conch.notices.delivery import find_news, mark_shown

        news = find_news(self._app.store, agent_id, _MOST_NEWS, to_all=False)
        if not news:
            return _NOTHING, None
        from conch.doors.hook import texts

        text, shown = texts.delivery(news)
        return Answer(context=text), lambda: mark_shown(self._app.store, shown)

    # -- the end of a reply

    def hold_back(self) -> tuple[Answer, _After]:
        agent_id = None if self._happening.is_subagent else self._agent_id()
        if agent_id is None:
            return _NOTHING, None
        # Never twice in a row.
        answer = _NOTHING if self._happening.goes_on else self._find_duties(agent_id)
        return answer, None if answer.block else partial(self._note_stop, agent_id)

    def _find_duties(self, agent_id: str) -> Answer:
        rooms = self._rooms_of(agent_id)
        if not rooms:
            return _NOTHING
        from conch.notices.delivery import find_duties

        holds = any(room["owner"] == agent_id for room in rooms)
        duties = find_duties(self._app.store, agent_id, [room["room_id"] for room in rooms])
        if not holds and not duties:
            return _NOTHING
        from conch.doors.hook import texts

        return Answer(block=texts.hold_back([*([texts.HELD_STICK] if holds else []), *map(texts.duty, duties)]))

    # -- signs for the server that wakes the agent

    def _note_work(self, agent_id: str) -> None:
        signs = Signs(self._app.settings.data_dir, agent_id)
        if not signs.are_wanted:
            return
        signs.note_work()
        prompt = self._happening.prompt  # Qwen Code reports an empty one after each tool
        if self._happening.kind == "prompt" and prompt and not self._app.waking.confirm(agent_id, signs, prompt):
            signs.note_user()

    def _note_stop(self, agent_id: str) -> None:
        signs = Signs(self._app.settings.data_dir, agent_id)
        if signs.are_wanted:
            signs.note_stop(self._happening.session_id)
            self._app.bell.ring([agent_channel(agent_id)])

    # -- the beginning and the end of a session

    def begin(self) -> tuple[Answer, _After]:
        directory = canonicalize(self._cwd)
        if workspace_root(directory) in (os.path.realpath(os.path.expanduser("~")), os.path.sep):
            return _NOTHING, None  # not a project: all sessions would share such a room
        from conch.doors.hook import texts
        from conch.host.agreements import find_agreements

        caller = self._caller()
        joined = self._app.membership.join_path(caller, directory, limit=1)
        room_id = joined.snapshot.room.room_id
        with self._app.rooms.look(None, room_id) as (_, snapshot):
            members = list(islice(snapshot.active_members(), texts.FEW + 2))  # the caller may be one of them
        reserved = self._app.reservations.list_reservations(None, room_id, limit=texts.FEW + 1)
        agreed = find_agreements(self._app.settings.data_dir, workspace_root(directory))
        text = texts.introduction(joined.snapshot, members, caller, reserved)
        return Answer(context="\n".join([text, *map(texts.agreement, agreed)])), None

    def end(self) -> tuple[Answer, _After]:
        agent_id = self._agent_id()
        rooms = self._rooms_of(agent_id) if agent_id else []
        if not rooms:
            return _NOTHING, None
        from conch.doors.hook import texts

        caller = self._caller()
        for room in rooms:
            if room["owner"] == agent_id:
                self._app.turns.abandon(caller, room["room_id"], texts.ABANDONED)
            else:
                self._app.membership.leave_path(caller, room["room_id"])
        return _NOTHING, None
