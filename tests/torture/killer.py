"""Starts the players, and kills, stops and restarts them and their servers at random until the time is up.

It has one thread and adopts the orphans of killed players, so every process of a run is its child or grandchild: it
knows when each has ended, and none is left behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.torture.engines import Engine, Ruin, run_conch
from tests.torture.history import Journal
from tests.torture.pids import FINISHED, Pids, Target, end_children
from tests.torture.player import Setting, fork_player

_PR_SET_CHILD_SUBREAPER = 36
_LONGEST_STOP = 2.0  # seconds; shorter than any deadline of conch
_STRIKES = {"KILL server": 30, "KILL player": 20, "STOP server": 12, "STOP player": 8, "store": 10}


class Plan(NamedTuple):
    """How much is done. Everything is bounded, so a run ends by itself."""

    seed: int
    seconds: float
    signals: int
    players: int = 6
    rate: float = 8.0
    """Signals per second, if the machine keeps up."""
    disasters: tuple[str, ...] = ()
    disaster_every: float = 20.0


class Killer:
    def __init__(self, plan: Plan, folder: Path, engine: Engine, workspaces: tuple[str, ...]) -> None:
        self._plan, self._engine = plan, engine
        self._dice = random.Random(plan.seed)
        self._journal = Journal(folder / "killer.jsonl")
        pids, until = Pids(plan.players), time.monotonic() + plan.seconds
        self._setting = Setting(folder, engine.environ, workspaces, plan.seed, until, pids)
        self._players: dict[int, tuple[int, int]] = {}  # by pid: the player and its generation
        self._stopped: list[tuple[float, Target]] = []  # with the time to go on
        self._ruin, self._began = Ruin(), time.monotonic()  # what the present epoch began with, and when
        self.counts: Counter[str] = Counter()
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def run(self) -> None:
        for index in range(self._plan.players):
            self._start(index, 0)
        try:
            self._strike_until_done()
            self._resume(everything=True)
            self._setting.pids.end()
            self._let_players_finish()
        finally:
            self._resume(everything=True)
            end_children(*self._engine.processes())
        self._close_epoch("")

    def _strike_until_done(self) -> None:
        next_disaster, disasters = time.monotonic() + self._plan.disaster_every, 0
        while time.monotonic() < self._setting.until and self.counts.total() < self._plan.signals:
            time.sleep(min(1.0, self._dice.expovariate(self._plan.rate)))
            self._reap()
            self._resume()
            if self._plan.disasters and time.monotonic() > next_disaster:
                disaster = self._plan.disasters[disasters % len(self._plan.disasters)]
                self._ruin_store(disaster)
                disasters += 1
                next_disaster = time.monotonic() + self._plan.disaster_every
            else:
                self._strike()

    # -- players

    def _start(self, index: int, generation: int) -> None:
        self._players[fork_player(self._setting, index, generation)] = (index, generation)

    def _reap(self) -> None:
        """Start those anew that have died."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
                pid, status = ended
                if pid in self._players:
                    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL), "a player failed"
                    index, generation = self._players.pop(pid)
                    self._start(index, generation + 1)
                else:
                    self._journal.write(reaped=pid, at=time.monotonic())

    def _let_players_finish(self) -> None:
        patience = time.monotonic() + 90
        while any(self._setting.pids.of(index) != FINISHED for index in range(self._plan.players)):
            self._reap()
            assert time.monotonic() < patience, "a player did not finish"
            time.sleep(0.05)

    # -- strikes

    def _strike(self) -> None:
        kind = self._dice.choices(list(_STRIKES), list(_STRIKES.values()))[0]
        pid = self._dice.choice(list(self._players)) if self._players else 0
        if kind == "store":
            at, done = time.monotonic(), self._engine.strike(self._dice)
            if done:
                self._note(at, done, -1)
        elif pid:
            self._signal(kind, pid)

    def _signal(self, kind: str, player_pid: int) -> None:
        index, at = self._players[player_pid][0], time.monotonic()
        parent = os.getpid() if kind.endswith("player") else player_pid
        pid = player_pid if kind.endswith("player") else self._setting.pids.of(index)
        try:
            target = Target(pid, parent)
        except OSError:
            return  # it has just ended, or not yet begun
        with contextlib.suppress(ProcessLookupError):
            target.send(signal.SIGKILL if kind.startswith("KILL") else signal.SIGSTOP)
        if kind.startswith("KILL"):
            target.close()
        else:
            self._stopped.append((at + self._dice.uniform(0, _LONGEST_STOP), target))
        self._note(at, kind, index)

    def _note(self, at: float, kind: str, player: int) -> None:
        self.counts[kind] += 1
        self._journal.write(signal=kind, player=player, at=at, over=time.monotonic())

    def _resume(self, everything: bool = False) -> None:
        now = time.monotonic()
        for due, target in self._stopped:
            if everything or due <= now:
                with contextlib.suppress(ProcessLookupError):
                    target.send(signal.SIGCONT)
                target.close()
        self._stopped = [] if everything else [each for each in self._stopped if each[0] > now]

    # -- epochs

    def _ruin_store(self, disaster: str) -> None:
        """Take the store away while everybody uses it."""
        self._resume(everything=True)  # one that holds the lock would keep the disaster waiting
        self._close_epoch(disaster)
        self._ruin = self._engine.ruin(disaster, self._dice)
        self._began = time.monotonic()
        self._note(self._began, disaster, -1)

    def _close_epoch(self, disaster: str) -> None:
        closing = time.monotonic()
        tables = self._engine.read_tables()
        report = run_conch(self._engine.environ, "db", "verify")
        epoch = {
            "began": self._began,
            "closing": closing,
            "ended": time.monotonic(),
            "disaster": disaster,
            "tables": tables,
            "problems": [] if report["ok"] else [str(report)[:2_000]],
            "kept_until": self._ruin.kept_until,
            "base": self._ruin.base,
        }
        self._journal.write(epoch=epoch)
