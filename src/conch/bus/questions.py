"""Questions and answers between peers. A question is a message; this module keeps its status.

A `pending` question takes one answer from each other peer until its asker marks it `answered` or cancels it.
"""

from __future__ import annotations

from functools import partial

from conch.agents.records import label
from conch.bells.base import Bell, topic_channel
from conch.bells.waits import Pause
from conch.bus.drafts import Draft, check_batch, check_fields, required_text
from conch.bus.peers import NO_PEER, Peer, load_standing
from conch.bus.stream import Message, append_messages, find_obstacle, to_message, wait_on_topic
from conch.bus.topics import dump_metadata, find_topic, require_open
from conch.calls import Call
from conch.config import Settings, check_length
from conch.errors import (
    Advice,
    ForbiddenAlreadyAnswered,
    ForbiddenNotAsker,
    ForbiddenSelfAnswer,
    InvalidArgument,
    QuestionNotFound,
    TopicMismatch,
)
from conch.lean import Any, NamedTuple, json
from conch.storage.base import NO_LIMIT, Row, Store, Transaction
from conch.warnings import Warning, Warnings, warning

MOST_ANSWERS = 20  # of a page
_MOST_POINTERS = 10
_MOST_FOLLOWUPS = 5
_RESPONSE_FIELDS = ("question_id", "answer_markdown", "repo_pointers", "suggested_followups")
_FORBIDDEN = {error.code: error for error in (ForbiddenSelfAnswer, ForbiddenAlreadyAnswered)}
_MISTAKEN = {"answer": "answer_markdown", "content_markdown": "answer_markdown", "content": "answer_markdown"}


class Question(NamedTuple):
    question_id: str
    topic_id: str
    asked_by_id: int
    asked_by: str
    asked_at: int
    status: str
    cancel_reason: str | None
    asked_by_agent_id: str | None


class Asked(NamedTuple):
    """A question and its answers so far, oldest first."""

    question: Question
    answers: list[Message]
    """The next page of them, plus one answer if there is another page."""
    answers_count: int

    @property
    def is_settled(self) -> bool:
        return bool(self.answers_count) or self.question.status != "pending"

    @property
    def outcome(self) -> str:
        """How a settled question ended: `answered` or `cancelled`."""
        return "answered" if self.answers_count or self.question.status == "answered" else "cancelled"


class Pending(NamedTuple):
    question_id: str
    asked_by: str
    asked_at: int
    question_text: str
    seq: int
    asked_by_agent_id: str | None

    @property
    def asker(self) -> str:
        """What people call the peer that asked."""
        return label(self.asked_by_agent_id, self.asked_by)


class Answerable(NamedTuple):
    """The questions a peer could answer. A closed topic gets no new ones."""

    questions: list[Pending]
    is_closed: bool


class _Response(NamedTuple):
    question_id: str
    draft: Draft
    warnings: Warnings


class Answered(NamedTuple):
    saved: int
    skipped: int
    warnings: Warnings


class Questions:
    def __init__(self, store: Store, bell: Bell, settings: Settings) -> None:
        self._store = store
        self._bell = bell
        self._settings = settings

    # -- asking

    def ask(self, peer: Peer, text: str, call: Call | None = None) -> Asked:
        """Ask a question, without waiting for its answers."""
        check_length("question", text, self._settings.max_question_chars, "max_question_chars")
        (call or Call()).check()  # a cancelled call must not ask
        with self._store.write(peer.topic_id) as tx:
            peer, standing = load_standing(tx, peer)
            require_open(peer.topic_id, standing.status)
            draft = Draft(text, "question", field="question")
            message = append_messages(tx, peer, [draft], standing.highest_seq)[0].message
            _touch(tx, peer)
        question = Question(
            question_id=message.message_id,
            topic_id=peer.topic_id,
            asked_by_id=peer.peer_id or NO_PEER,
            asked_by=peer.agent_name,
            asked_at=message.created_at,
            status="pending",
            cancel_reason=None,
            asked_by_agent_id=message.sender_agent_id,
        )
        return Asked(question, [], 0)

    def wait(self, topic_id: str, question_id: str, wait_seconds: float, call: Call) -> Asked | None:
        """Return the question as soon as it has an answer or has ended; None if it is still open after `wait_seconds`.

        StoreError if the store cannot say. The question is already asked, so the caller must not ask it again.
        """

        def look(pause: Pause) -> Asked | None:
            found = self.poll(topic_id, question_id)
            return found if found.is_settled else None

        return wait_on_topic(self._bell, topic_id, look, wait_seconds, call, self._settings)

    def poll(self, topic_id: str, question_id: str, after: int = 0) -> Asked:
        """The question, and its next answers after a message number."""
        with self._store.look() as tx:
            return _load(tx, topic_id, question_id, after)

    def cancel(self, peer: Peer, question_id: str, reason: str | None) -> tuple[Question, bool]:
        """End a question without an answer; returns it, and whether it was still pending."""
        check_length("reason", reason or "", self._settings.max_reason_chars, "max_reason_chars")
        return self._end(peer, question_id, "cancelled", reason, forbidden="answered")

    def mark_answered(self, peer: Peer, question_id: str) -> tuple[Question, bool]:
        return self._end(peer, question_id, "answered", None, forbidden="cancelled")

    def _end(
        self, peer: Peer, question_id: str, status: str, reason: str | None, forbidden: str
    ) -> tuple[Question, bool]:
        with self._store.write(peer.topic_id) as tx:
            _expect(tx, peer.topic_id, question_id)
            peer, _ = load_standing(tx, peer)
            question = _load(tx, peer.topic_id, question_id).question
            if question.asked_by_id != peer.peer_id:
                asker = label(question.asked_by_agent_id, question.asked_by)
                message = f"Only {asker}, who asked the question, can end it. Ask them to do so."
                raise ForbiddenNotAsker(message, question_id=question_id, asked_by=question.asked_by)
            if question.status == forbidden:
                message = f"The question is already {forbidden}, so it cannot be marked {status}."
                raise InvalidArgument(message, field="question_id", question_status=question.status)
            _touch(tx, peer)
            tx.ring(topic_channel(peer.topic_id))  # a wait for an answer ends now
            if question.status != "pending":
                return question, False
            tx.run("end_question", question_id=question_id, status=status, cancel_reason=reason)
            return question._replace(status=status, cancel_reason=reason), True

    # -- answering

    def list_pending(self, peer: Peer, limit: int, wait_seconds: float, call: Call, after: int) -> Answerable:
        """The questions this peer could answer, oldest first, after a message number.

        Waits for one unless the topic is closed.
        """
        given = {"topic_id": peer.topic_id, "limit": limit, "after": after}

        def look(pause: Pause | None) -> Answerable | None:
            with self._store.read() as tx:
                reader, standing = load_standing(tx, peer)
                rows = tx.all("answerable_questions", peer_id=reader.peer_id, **given)
            answerable = Answerable([Pending(**row) for row in rows], standing.status == "closed")
            return answerable if answerable.questions or answerable.is_closed else None

        found = look(None)
        if found is None and wait_seconds > 0:
            found = wait_on_topic(self._bell, peer.topic_id, look, wait_seconds, call, self._settings)
        return found or Answerable([], is_closed=False)

    def list_all(self, topic_id: str, statuses: list[str], limit: int, before: int | None = None) -> list[Row]:
        """The questions of a topic, newest first, each with its number of answers; with `before`, only earlier ones."""
        with self._store.read() as tx:
            find_topic(tx, topic_id)
            return tx.all(
                "questions_on_topic",
                topic_id=topic_id,
                statuses=statuses,
                before=NO_LIMIT if before is None else before,
                limit=limit,
            )

    def find(self, question_ids: list[str]) -> dict[str, Question]:
        """The questions among these messages, by id."""
        if not question_ids:
            return {}
        with self._store.read() as tx:
            rows = tx.all("questions_by_id", question_ids=question_ids)
        return {row["question_id"]: Question(**row) for row in rows}

    def answer(self, peer: Peer, responses: list[Any], needs_followups: bool = True) -> Answered:
        """Save the answers. If one is forbidden, none is saved. Answers to unknown or ended questions are skipped.

        Agents must suggest follow-up questions; people need not.
        """
        if not responses:
            raise InvalidArgument("responses must be non-empty.", field="responses")
        check_batch("responses", responses, self._settings)
        checked = [
            self._check_response(item, f"responses[{place}]", needs_followups) for place, item in enumerate(responses)
        ]
        obstacles = self._store.briefly(partial(self._save, peer, checked))
        warnings = [each for response in checked for each in response.warnings]
        saved = len(checked) - len(obstacles)
        return Answered(saved, len(obstacles), warnings + obstacles)

    def _save(self, peer: Peer, responses: list[_Response]) -> Warnings:
        """Save answers; returns why some were not saved."""
        obstacles: Warnings = []
        with self._store.write(peer.topic_id) as tx:
            for response in responses:
                tx.ahead("find_question", question_id=response.question_id)
            peer, standing = load_standing(tx, peer)
            highest_seq = standing.highest_seq
            for response in responses:
                obstacle = _obstacle(tx, peer, response)
                if obstacle is None:
                    append_messages(tx, peer, [response.draft], highest_seq)
                    highest_seq += 1
                else:
                    obstacles.append(obstacle)
            _touch(tx, peer)
        return obstacles

    def _check_response(self, item: Any, field: str, needs_followups: bool) -> _Response:
        check_fields(item, field, _RESPONSE_FIELDS, _MISTAKEN)
        question_id = required_text(item, field, "question_id")
        text = required_text(item, field, "answer_markdown")
        check_length(f"{field}.answer_markdown", text, self._settings.max_answer_chars, "max_answer_chars")
        warnings: Warnings = []
        pointers = _texts(item, field, "repo_pointers", _MOST_POINTERS, "REPO_POINTERS_TRUNCATED", warnings)
        followups = _texts(item, field, "suggested_followups", _MOST_FOLLOWUPS, "FOLLOWUPS_TRUNCATED", warnings)
        if needs_followups and not followups:
            name = f"{field}.suggested_followups"
            raise InvalidArgument(f"{name} is required: suggest at least one question to ask next.", field=name)
        extras = {"repo_pointers": pointers, "suggested_followups": followups}
        metadata = dump_metadata(field, extras, self._settings)
        return _Response(question_id, Draft(text, "answer", question_id, metadata, field=field), warnings)


def extras(answer: Message) -> tuple[list[str], list[str]]:
    """The repo_pointers and suggested_followups of an answer; an answer sent with `sync` may have none."""
    metadata = json.loads(answer.metadata_json) if answer.metadata_json else {}
    found = (metadata.get("repo_pointers"), metadata.get("suggested_followups"))
    pointers, followups = ([str(text) for text in texts] if isinstance(texts, list) else [] for texts in found)
    return pointers, followups


def _load(tx: Transaction, topic_id: str, question_id: str, after: int = 0) -> Asked:
    page = _expect(tx, topic_id, question_id, after)
    find_topic(tx, topic_id)  # a wrong topic is reported before a wrong question
    row = tx.one("find_question", question_id=question_id)
    if row is None:
        message = f"There is no question {question_id!r}."
        raise QuestionNotFound(message, Advice("find_questions"), field="question_id", question_id=question_id)
    if row["topic_id"] != topic_id:
        message = f"Question {question_id} belongs to topic {row['topic_id']}: name that one."
        raise TopicMismatch(message, field="topic_id", question_id=question_id, topic_id=row["topic_id"])
    answers = tx.all("answers_to", **page)
    count = len(answers)
    if after or count > MOST_ANSWERS:  # rare: then the page alone does not show how many answers there are
        counted = tx.one("count_answers", question_id=question_id)
        count = counted["answers_count"] if counted else count
    return Asked(Question(**row), [to_message(answer) for answer in answers], count)


def _expect(tx: Transaction, topic_id: str, question_id: str, after: int = 0) -> Row:
    """Fetch ahead what `_load` reads; returns the parameters of the query for the answers."""
    page: Row = {"question_id": question_id, "after": after, "limit": MOST_ANSWERS + 1}
    tx.ahead("find_topic", topic_id=topic_id)
    tx.ahead("find_question", question_id=question_id)
    tx.ahead("answers_to", **page)
    return page


def _obstacle(tx: Transaction, peer: Peer, response: _Response) -> Warning | None:
    """A warning if the answer must be skipped. Raises if it is forbidden, so that no answer is saved."""
    question_id, field = response.question_id, f"{response.draft.field}.question_id"
    row = tx.one("find_question", question_id=question_id)
    if row is None:
        return _skipped("QUESTION_NOT_FOUND", question_id, "there is no such question")
    if row["topic_id"] != peer.topic_id:
        return _skipped("TOPIC_MISMATCH", question_id, f"it belongs to topic {row['topic_id']}")
    obstacle = find_obstacle(tx, peer, row)
    if obstacle is None:
        return None
    if obstacle.code not in _FORBIDDEN:
        return _skipped(obstacle.code, question_id, obstacle.reason)
    message = f"{field}: {obstacle.reason} ({question_id}). Nothing was saved."
    raise _FORBIDDEN[obstacle.code](message, field=field, question_id=question_id)


def _skipped(code: str, question_id: str, why: str) -> Warning:
    message = f"The answer to {question_id[:80]} was not saved: {why}."
    return warning(code, message, question_id=question_id)


def _texts(item: Row, field: str, name: str, most: int, code: str, warnings: Warnings) -> list[str]:
    """A list of texts. A list that is too long is cut, with a warning."""
    texts = item.get(name)
    if texts is None:
        return []
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise InvalidArgument(f"{field}.{name} must be a list of non-empty strings.", field=f"{field}.{name}")
    if len(texts) > most:
        message = f"{field}.{name} has {len(texts)} items; the first {most} were kept."
        warnings.append(warning(code, message, question_id=item.get("question_id")))
    return texts[:most]


def _touch(tx: Transaction, peer: Peer) -> None:
    tx.run("touch_agent", agent_id=peer.agent_id, now=tx.now)
    tx.run("touch_cursor", peer_id=peer.peer_id, now=tx.now)
