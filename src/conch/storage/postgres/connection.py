"""A connection to PostgreSQL that sends several statements at once and gives up on a silent server.

Over a network, a call costs its round trips. A flight is a list of statements that travel together and are answered
together, in the protocol's pipeline mode: it costs one round trip. Each statement is prepared the first time that a
connection sends it, in the same flight.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence

import psycopg
from psycopg.abc import Buffer
from psycopg.abc import Transformer as AbcTransformer
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from conch.lean import Any
from conch.storage.base import Row

SCHEMA = "conch"  # our own schema, because other programs also have tables called `agents` or `messages`
_LONG_SECONDS = 600.0  # for work on whole tables
_FIRST_PLANS = 32  # flights
_ANSWERED = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK, ExecStatus.EMPTY_QUERY)


_Adapted = tuple[Sequence[Buffer | None], tuple[int, ...], list[Format]]  # values, their types and formats


class Silence(psycopg.OperationalError):
    """The server did not answer in time. The connection is closed."""


class Question:
    """One statement of a flight, and its answer once the flight has ended."""

    def __init__(self, text: str, values: Sequence[Any] = (), *, is_prepared: bool = True) -> None:
        """`text` has parameters `$1`, `$2` and so on. A statement that is quick to parse need not be prepared."""
        self.text = text
        self.values = values
        self.is_prepared = is_prepared
        self.is_sent = False
        self.is_answered = False
        self.rows: list[Row] = []
        self.count = 0
        """How many rows it changed or returned."""
        self.error: psycopg.Error | None = None
        """Why the server refused it."""


class Connection(psycopg.Connection[Row]):
    """A connection with a limit for every exchange.

    The server's own timeouts do not help if it is stopped, and the kernel acknowledges packets for a stopped process.
    """

    patience = _LONG_SECONDS
    """For how many seconds the server may stay silent."""
    on_silence: Callable[[], None] | None = None
    _statement_names: dict[tuple[str, tuple[int, ...]], bytes] | None = None
    _values: AbcTransformer
    _flights = 0

    def wait(self, gen: Generator[Any, Any, Any], *given: Any, **named: Any) -> Any:
        """Every exchange with the server passes here. Silence if the server takes too long."""
        try:
            return super().wait(_within(self.patience, gen), *given, **named)
        except Silence:
            self.close()
            if self.on_silence is not None:
                self.on_silence()
            raise

    def take_time(self) -> None:
        """Be patient from now on, because the next statements work on whole tables."""
        self.patience = _LONG_SECONDS

    def fly(self, questions: Sequence[Question]) -> None:
        """Ask everything in one round trip. Raises the first refusal; what came before it is answered all the same.

        After a refusal, the server has skipped the rest. If the connection is lost, it is closed.
        """
        if self._statement_names is None:
            self._statement_names, self._values = {}, Transformer.from_context(self)
        questions = [*questions, *self._renew_plans()]
        adapted = [self._adapt(question) for question in questions]  # may be refused, so before anything is sent
        commands: list[_Command] = []
        try:
            self.pgconn.enter_pipeline_mode()
            for question, values in zip(questions, adapted, strict=True):
                commands += self._send(question, values)
            self.pgconn.pipeline_sync()
            self.wait(_collect(self.pgconn, commands))
            self.pgconn.exit_pipeline_mode()
        except BaseException:  # nobody knows what the server will still say
            self.close()
            raise
        finally:
            self._note_answers(commands)
        for question in questions:
            if question.error is not None:
                raise question.error

    def _renew_plans(self) -> list[Question]:
        """Let the server plan all statements anew after 32 flights, 64, 128 and so on.

        It plans a statement for the tables as they are then, and keeps the plan. A plan for empty tables may read all
        members of a room. The server itself only notices later, once it has gathered statistics.
        """
        self._flights += 1
        is_due = self._flights >= _FIRST_PLANS and self._flights.bit_count() == 1
        return [Question("DISCARD PLANS", is_prepared=False)] if is_due else []

    def _adapt(self, question: Question) -> _Adapted:
        if not question.values:
            return (), (), []
        values = self._values.dump_sequence(question.values, [PyFormat.AUTO] * len(question.values))
        return values, tuple(self._values.types or ()), list(self._values.formats or ())

    def _send(self, question: Question, adapted: _Adapted) -> list[_Command]:
        """Put a statement into the buffer for the flight."""
        question.is_sent, question.is_answered, question.error = True, False, None  # an earlier flight may be lost
        dumped, types, places = adapted
        if not question.is_prepared:
            self.pgconn.send_query_params(question.text.encode(), dumped, types, places)
            return [_Command(question)]
        assert self._statement_names is not None
        key = (question.text, types)
        name, commands = self._statement_names.get(key), [_Command(question)]
        if name is None:
            name = self._statement_names[key] = f"conch_{len(self._statement_names)}_{time.monotonic_ns()}".encode()
            self.pgconn.send_prepare(name, question.text.encode(), types)
            commands.insert(0, _Command(question, prepares=key))
        self.pgconn.send_query_prepared(name, dumped, places)
        return commands

    def _note_answers(self, commands: list[_Command]) -> None:
        assert self._statement_names is not None
        for command in commands:
            result, question = command.result, command.question
            if result is None or result.status not in _ANSWERED:
                if command.prepares is not None:  # the server may not have it
                    self._statement_names.pop(command.prepares, None)
                if result is not None and result.status == ExecStatus.FATAL_ERROR and question.error is None:
                    question.error = error_from_result(result)
            elif command.prepares is None:
                question.is_answered = True
                question.count = result.command_tuples or 0
                question.rows = self._load(result)

    def _load(self, result: PGresult) -> list[Row]:
        if not result.ntuples:
            return []
        names = [(result.fname(number) or b"").decode() for number in range(result.nfields)]
        self._values.set_pgresult(result)
        return self._values.load_rows(0, result.ntuples, lambda values: dict(zip(names, values, strict=True)))


class _Command:
    """A message of a flight that the server answers: the preparation of a statement, or its execution."""

    def __init__(self, question: Question, prepares: tuple[str, tuple[int, ...]] | None = None) -> None:
        self.question = question
        self.prepares = prepares
        self.result: PGresult | None = None


def _collect(pgconn: PGconn, commands: list[_Command]) -> Generator[Wait, Ready, None]:
    """Send what is in the buffer, and give each command its result, until the server has answered all of them."""
    unsent, waiting, lost = pgconn.flush(), iter(commands), None
    current: _Command | None = None
    while True:
        while not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:
                if current is None:  # nothing more has arrived
                    break
                current = None  # its results have ended
            elif result.status == ExecStatus.PIPELINE_SYNC:
                return
            else:
                current = current or next(waiting, _Command(Question("")))  # a lost connection is an answer to nothing
                current.result = result
        if lost is not None:
            raise lost
        ready = yield Wait.RW if unsent else Wait.R
        if ready & Ready.R:
            try:
                pgconn.consume_input()
            except psycopg.OperationalError as error:
                lost = error  # but first read what has arrived
        if unsent and lost is None:
            unsent = pgconn.flush()


def _within(seconds: float, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """The same steps of a driver's generator, ended by Silence. The driver resumes it ten times a second."""
    heard_at = time.monotonic()
    try:
        step = next(steps)
        while True:
            ready = yield step
            if ready:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > seconds:
                raise Silence(f"no answer within {seconds:g} seconds")
            step = steps.send(ready)
    except StopIteration as end:
        return end.value
