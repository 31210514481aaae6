"""The search: every state that a number of operations can reach, each visited once, with the shortest way to it.

A key that forgets too much would hide states. So one step of fifty is checked: if it leads to a known state, that must
have the same future as the state that was expanded with this key.

It goes breadth first by the number of operations that agents have begun. Going on with a suspended operation and the
clock are free, so each state is expanded with as many operations left as possible.
"""

from __future__ import annotations

import gc
import math
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tests.explore.state import Client, State, Step, key
from tests.explore.world import World, die, tick

from conch.errors import ConchError

COMPARED = 0.02


class Scenario(NamedTuple):
    """How many agents may begin how many operations each, and which ones."""

    name: str
    agents: int
    each: int
    operations: tuple[str, ...]
    has_joined: bool = True
    """All agents have joined the room at the start."""
    is_mortal: bool = True
    """Processes end and come back."""
    is_stepwise: bool = True
    """Others act between the transactions of an operation."""

    @property
    def budget(self) -> int:
        return self.agents * self.each


class Violation(Exception):
    """A rule was broken. The message has the shortest way to it."""


class Report(NamedTuple):
    scenario: Scenario
    states: int
    transitions: int
    seconds: float
    """Processor time."""
    used: int
    """How many operations the longest shortest way has."""
    is_complete: bool
    """No state is left that was not expanded: more operations would reach nothing new."""
    succeeded: frozenset[str]
    """The operations that were granted in at least one state."""
    compared: int
    """How many states were compared with another of the same key."""

    def __str__(self) -> str:
        scenario = self.scenario
        reach = "any number of operations" if self.is_complete else f"{scenario.each} operations each"
        kinds = len(scenario.operations) + 2 * scenario.is_mortal
        steps = "between transactions" if scenario.is_stepwise else "between operations"
        return (
            f"{scenario.name}: {scenario.agents} agents, {reach} of {kinds} kinds, {steps}: "
            f"{self.states:,} states, {self.transitions:,} transitions, {self.compared:,} compared, "
            f"{self.seconds:.0f} s of processor time"
        )


Rule = Callable[[World, Step, bool], None]
"""Raises AssertionError if a step breaks it. The last argument says whether the step leads to a new state."""


class Node(NamedTuple):
    """A state, how many operations led to it, and the last step of the way."""

    state: State
    key: bytes
    used: int
    way: tuple[Node, Step] | None


def explore(world: World, scenario: Scenario, rules: Sequence[Rule]) -> Report:
    """Visit every state and check every step. Raises Violation at the first step that breaks a rule."""
    gc.disable()  # nothing here is cyclic garbage, and looking for it among all states would take a quarter of the time
    try:
        return _explore(world, scenario, rules)
    finally:
        gc.enable()


def _explore(world: World, scenario: Scenario, rules: Sequence[Rule]) -> Report:
    began, transitions, is_complete = time.process_time(), 0, True
    start = prepare(world, scenario)
    known, twins = {key(start): 0}, Twins(world, scenario)
    queue = deque([Node(start, key(start), 0, None)])
    used, succeeded = 0, set[str]()
    while queue:
        node = queue.popleft()
        if known[node.key] < node.used:
            continue  # a shorter way was found meanwhile
        used, may_begin = node.used, node.used < scenario.budget
        is_complete, future = is_complete and may_begin, Future()
        for step, cost in successors(world, scenario, node.state, may_begin):
            transitions += 1
            if step.succeeded:
                succeeded.add(step.operation)
            found = Node(step.after, key(step.after), node.used + cost, (node, step))
            future[_end(step), found.key] += 1
            is_new = found.key not in known
            _check(world, rules, found, is_new)
            if not is_new:
                twins.meet(found)
            if found.used < known.get(found.key, math.inf):
                known[found.key] = found.used
                (queue.append if cost else queue.appendleft)(found)
        if may_begin:
            twins.note(node, future)
    twins.compare()
    seconds = time.process_time() - began
    return Report(scenario, len(known), transitions, seconds, used, is_complete, frozenset(succeeded), twins.compared)


def prepare(world: World, scenario: Scenario) -> State:
    """The first state: all agents have started and identified themselves, and have joined the room or not."""
    state = world.start._replace(has_kicks="kick_next" in scenario.operations)
    for number in range(scenario.agents):
        state = world.step(state, number, "identify_itself", whole=True).after
    for number in range(scenario.agents if scenario.has_joined else 0):
        state = world.step(state, number, "join", whole=True).after
    return state


def successors(world: World, scenario: Scenario, state: State, may_begin: bool) -> Iterator[tuple[Step, int]]:
    """Every step from here, and how many operations it begins."""
    yield tick(state), 0
    for client in state.clients:
        if client.doing is not None:
            yield world.step(state, client.number, client.doing.operation), 0
        if may_begin:
            for step in _beginnings(world, scenario, state, client):
                yield step, 1


def _beginnings(world: World, scenario: Scenario, state: State, client: Client) -> Iterator[Step]:
    if not client.alive:
        yield world.come_back(state, client.number)
        return
    if scenario.is_mortal:
        yield die(state, client.number)
    if client.doing is None:
        for operation in scenario.operations:
            yield world.step(state, client.number, operation, whole=not scenario.is_stepwise)


Future = Counter[tuple[str, bytes]]
"""How often each step, with its end, leads to each key."""


class Twins:
    """Compares some states with the one that was expanded with the same key."""

    def __init__(self, world: World, scenario: Scenario) -> None:
        self._world, self._scenario = world, scenario
        self._expanded: dict[bytes, tuple[Node, int]] = {}
        self._chosen: list[Node] = []
        self._dice = random.Random(0)
        self.compared = 0

    def note(self, node: Node, future: Future) -> None:
        self._expanded[node.key] = node, _digest(future)

    def meet(self, node: Node) -> None:
        if self._dice.random() < COMPARED:
            self._chosen.append(node)

    def compare(self) -> None:
        for node in self._chosen:
            if node.key in self._expanded:
                self._compare(node, *self._expanded[node.key])

    def _compare(self, node: Node, first: Node, expected: int) -> None:
        self.compared += 1
        steps = [step for step, _ in successors(self._world, self._scenario, node.state, may_begin=True)]
        if _digest(Future((_end(step), key(step.after)) for step in steps)) != expected:
            ways = f"{_describe(first)}\nand\n{_describe(node)}"
            raise Violation(f"The key takes these states for one, but they have different futures:\n{ways}")


def _digest(future: Future) -> int:
    return hash(frozenset(future.items()))


def _end(step: Step) -> str:
    end = step.result.code if isinstance(step.result, ConchError) else str(step.result is None)
    return f"{step.operation} {end}"


def _check(world: World, rules: Sequence[Rule], node: Node, is_new: bool) -> None:
    assert node.way is not None
    try:
        for rule in rules:
            rule(world, node.way[1], is_new)
    except AssertionError as problem:
        raise Violation(f"{problem}\n{_describe(node)}") from problem


def _describe(node: Node) -> str:
    """The way to a state, step by step."""
    steps: list[str] = []
    while node.way is not None:
        node, step = node.way
        steps.insert(0, f"  {step}")
    return "\n".join(steps)
