"""Runs the show: sets the stage, starts the agents, has the script performed, and leaves nothing behind."""

from __future__ import annotations

import shlex
import signal
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType

from conch.app import open_app
from conch.doors.cli.demo.actors import Actor, Role, Unexpected
from conch.doors.cli.demo.play import Play
from conch.doors.cli.demo.screen import BOLD, GREEN, Screen
from conch.doors.cli.demo.script import ROLES, Cast, perform
from conch.doors.cli.demo.stage import Stage
from conch.doors.cli.output import abandon_stream, clean
from conch.errors import ConchError
from conch.rooms.verify import verify_rooms
from conch.typed import NoReturn

Handler = Callable[[int, FrameType | None], NoReturn] | signal.Handlers


def direct(keep: bool) -> int:
    """Play the demo: 0 when everything went as the seed says, else 1. It cleans up however it ends."""
    try:
        with _leaving_on_signals(), _scene(keep) as troupe:
            return troupe.show()
    except ConchError as refusal:
        _complain(refusal.message)
    except OSError as problem:
        if not isinstance(problem, BrokenPipeError):  # whoever closed the pipe has seen enough
            _complain(str(problem))
        abandon_stream(sys.stdout)
    return 1


class Troupe:
    """The stage, and everybody who was ever on it."""

    def __init__(self, stage: Stage, keep: bool) -> None:
        self._stage = stage
        self._keep = keep
        self._screen = Screen()
        self._actors: list[Actor] = []

    def show(self) -> int:
        try:
            self._stage.build()
            self._announce()
            play = Play(self._screen, {role.agent_id: role.name for role in ROLES})
            perform(play, self._cast(), self._stage)
            self._sum_up(play)
        except Unexpected as surprise:
            words = [f"{actor.role.name} wrote:\n{text}" for actor in self._actors if (text := actor.last_words())]
            _complain("\n".join([str(surprise), *words]))
            return 1
        return 0

    def hire(self, role: Role) -> Actor:
        """Start an agent, and wait until its server has answered."""
        self._actors.append(Actor(role, self._stage))
        self._actors[-1].until_ready()
        return self._actors[-1]

    def dismiss(self) -> None:
        """See everybody off; they leave at the same time."""
        for actor in self._actors:
            actor.dismiss()
        for actor in self._actors:
            actor.wait_for_exit()

    def _cast(self) -> Cast:
        """All three, who start at the same time."""
        for role in ROLES:
            self._actors.append(Actor(role, self._stage))
        for actor in self._actors:
            actor.until_ready()
        codex, claude, gemini = self._actors
        return Cast(codex, claude, gemini, self.hire)

    def _announce(self) -> None:
        self._screen.say("conch demo: three scripted agents share one checkout.", BOLD)
        self._screen.say("Each is a process of its own and speaks MCP to its own `conch mcp`.")
        fate = "kept" if self._keep else "removed at the end"
        self._screen.show_verbatim(f"Scratch directory, {fate}: {self._stage.directory}")

    def _sum_up(self, play: Play) -> None:
        rooms, database = self._verify()
        count, took = len(play.latencies_ms), statistics.median(play.latencies_ms)
        say = self._screen.say
        say("")
        say(f"{play.turn.turn_id} turns granted, {play.takeovers} of them by takeover.", GREEN)
        say(f"{count} handoffs delivered word for word; median {took:.1f} ms from call to your_turn.", GREEN)
        say(f"db verify: {rooms} room replayed, nothing differs.", GREEN)
        if self._keep:
            command = ["conch", "events", "--store", database, "--path", self._stage.checkout]
            self._screen.show_verbatim(f"Read its log: {shlex.join(command)}")
        say("Next: `conch join` in your checkout, or add `conch mcp` to your harness.", BOLD)

    def _verify(self) -> tuple[int, str]:
        """How many rooms the store has, and where it is; Unexpected unless they are what their log says."""
        with closing(open_app({"CONCH_DATA_DIR": self._stage.data_dir})) as app:
            problems = app.store.integrity_problems()
            rooms, differences = verify_rooms(app.store)
            if problems or differences:
                raise Unexpected(f"The rooms should be what their log says, but {problems} {differences}.")
            return rooms, app.store.describe()


@contextmanager
def _scene(keep: bool) -> Iterator[Troupe]:
    stage = Stage()
    troupe = Troupe(stage, keep)
    try:
        yield troupe
    finally:
        with _undisturbed():
            troupe.dismiss()
            if not keep:
                stage.strike()


@contextmanager
def _leaving_on_signals() -> Iterator[None]:
    """Let the signals that end a process unwind it instead, so that it can clean up."""

    def leave(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    with _handling(leave, signal.SIGTERM, signal.SIGHUP):
        yield


@contextmanager
def _undisturbed() -> Iterator[None]:
    """The second Ctrl-C of an impatient user does not stop the cleaning up."""
    with _handling(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield


@contextmanager
def _handling(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Handle some signals in this way; those that are ignored stay so."""
    heeded = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    previous = {number: signal.signal(number, handler) for number in heeded}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


def _complain(text: str) -> None:
    print(f"conch demo: {clean(text)}", file=sys.stderr, flush=True)
