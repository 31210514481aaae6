"""Real harnesses work together after `conch install`, and nothing else. A scripted model decides what they do.

Each joins, is refused an edit, is shown a message between two tool calls, is the same agent in its shell, stops, is
woken when the stick comes to it, is kept from stopping while it holds the stick, and passes it on, word for word.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.harness.model import Model, Run, Say, Script, Use, Write
from tests.harness.programs import CONCH, PROGRAMS, SECONDS, AppServer, Scene, opencode_settings

from conch.waking.signs import Signs

ORDER = ["claude-code", "codex", "opencode", "gemini", "qwen", "copilot", "kilo"]
QWEN_SETTINGS = """{
  "security": {"auth": {"selectedType": "openai"}},
  "ui": {"enableFollowupSuggestions": false}  // it would ask the model
}
"""
RIVAL = "rival:1"
TAKEN = "src/taken.py"
GEMINI_SETTINGS = """{
  "security": {"auth": {"selectedType": "gemini-api-key"}},  // mine
  "tools": {"shell": {"enableInteractiveShell": false}}
}
"""


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Model() as model:
        found = Scene(tmp_path.resolve(), model)
        for path, text in (
            (".gemini/settings.json", GEMINI_SETTINGS),
            (".qwen/settings.json", QWEN_SETTINGS),
            (".config/opencode/opencode.json", opencode_settings(model.address)),
            (".config/kilo/kilo.json", opencode_settings(model.address)),
        ):
            (found.home / path).parent.mkdir(parents=True)
            (found.home / path).write_text(text)
        yield found
        found.close()


def install(scene: Scene, *slugs: str) -> None:
    """Set harnesses up, in a room where a rival has reserved a file and holds the stick."""
    scene.conch("install", "--wake", *slugs)
    for words in (["join"], ["reserve", TAKEN], ["wait", "--timeout", "0"], ["policy", "guard=enforce"]):
        scene.conch(*words, agent=RIVAL)


class Notes:
    """What the model of one harness was shown, by the part of the story."""

    def __init__(self, slug: str) -> None:
        self.slug = slug
        self._parts: dict[str, str] = {}
        self._changed = threading.Condition()

    def __setitem__(self, part: str, text: str) -> None:
        with self._changed:
            self._parts[part] = text
            self._changed.notify_all()

    def __getitem__(self, part: str) -> str:
        """Wait until the story is so far."""
        with self._changed:
            self._changed.wait_for(lambda: part in self._parts, SECONDS)
            assert part in self._parts, f"{self.slug} did not come to {part!r}, only to {list(self._parts.items())[-1]}"
            return self._parts[part]

    @property
    def agent_id(self) -> str:
        found = re.search(rf"{self.slug}:[0-9a-f]+", self["joined"])
        assert found, self["joined"]
        return found[0]


def words_of(slug: str) -> str:
    """A status that is hard to pass on unchanged."""
    return f'What I did: {slug} said "no" & <b>ünï</b> `x` \\n $HOME\nWhat I learned: 100 % of {slug}'


def is_in(words: str, text: str) -> bool:
    """Whether each line is there, as text or inside JSON."""
    return all(line in text or json.dumps(line, ensure_ascii=False)[1:-1] in text for line in words.splitlines())


def play(scene: Scene, notes: Notes, successor: Callable[[], str]) -> Script:
    """What each harness does."""
    notes["joined"] = yield Use("join_path")
    notes["refused"] = yield Write(str(scene.project / TAKEN))
    scene.conch("send", f"Hello {notes.slug}.", "--to", notes.agent_id, agent=RIVAL)
    notes["told"] = yield Run("true")
    notes["shell"] = yield Run(f"{CONCH} whoami --json")
    notes["woken"] = yield Say("I stop here, because it is not my turn.")
    yield Use("join_path")  # a resumed run is another connection, and OpenCode has one for each prompt
    notes["turn"] = yield Use("wait_for_turn")
    notes["held back"] = yield Say("I stop here, with the stick.")
    yield Use("join_path")
    yield Use("wait_for_turn")
    handoff = {"status": words_of(notes.slug), "next_action": "Go on."}
    notes["passed"] = yield Use("pass_stick", {"to_agent_id": successor(), "handoff": handoff})
    while True:
        yield Say("I stop here.")


def wait_until_stopped(scene: Scene, players: list[Notes]) -> None:
    """Hooks say when an agent has stopped. Before that, the stick would only keep it from stopping."""
    all_signs = [Signs(str(scene.home / ".local/share/conch"), player.agent_id) for player in players]
    end = time.monotonic() + SECONDS
    while not all(signs.has_stopped for signs in all_signs):
        assert time.monotonic() < end, "not all have stopped"
        time.sleep(0.05)


def test_installed_harnesses_take_turns_and_respect_each_other(scene: Scene) -> None:
    slugs = [slug for slug in ORDER if (PROGRAMS / slug / "node_modules" / ".bin").exists()]
    if len(slugs) < 2:
        pytest.skip("two harnesses are needed; `make test-harness` installs them where npm reaches its registry")
    install(scene, *slugs)
    players = [Notes(slug) for slug in slugs]
    followers: list[Callable[[], str]] = [lambda player=player: player.agent_id for player in players[1:]]
    for player, successor in zip(players, [*followers, lambda: RIVAL], strict=True):
        scene.model.play(player.slug, play(scene, player, successor))

    with ThreadPoolExecutor() as pool:
        seats = list(pool.map(scene.open, slugs))
    for player, seat in zip(players, seats, strict=True):
        seat.prompt(f"Please play {player.slug}.")
    wait_until_stopped(scene, players)
    scene.conch("pass", players[0].agent_id, "--status", words_of("rival"), "--next", "Go on.", agent=RIVAL)
    assert all(player["passed"] for player in players)
    end = scene.conch("wait", "--timeout", "0", "--json", agent=RIVAL)

    assert not (scene.project / TAKEN).exists()
    before = "rival"
    for player in players:
        assert "conch refused this change" in player["refused"] and TAKEN in player["refused"]
        assert f"Hello {player.slug}." in player["told"]
        assert f'"agent_id": "{player.agent_id}"' in player["shell"].replace('\\"', '"')
        assert "The stick is reserved for you." in player["woken"], player["woken"]
        assert is_in(words_of(before), player["turn"]), player["turn"]
        assert "You still hold the stick" in player["held back"]
        before = player.slug
    assert json.loads(end)["data"]["handoff"]["status"] == words_of(before)


def test_two_threads_of_one_codex_process_are_two_agents(scene: Scene) -> None:
    install(scene, "codex")
    players = [Notes("codex"), Notes("codex")]
    for number, player in enumerate(players):
        scene.model.play(f"thread-{number}", play(scene, player, lambda: RIVAL))
    server = AppServer(scene)

    for number in range(2):
        server.open_thread().prompt(f"Please play thread-{number}.")

    first, second = (player.agent_id for player in players)
    assert first != second
    for player, own in zip(players, (first, second), strict=True):
        assert f'"agent_id": "{own}"' in player["shell"].replace('\\"', '"')


def test_sync_advances_in_opencode(scene: Scene) -> None:
    """OpenCode cancels each call after it has read the reply."""
    install(scene, "opencode")
    notes = Notes("opencode")

    def read_twice() -> Script:
        notes["joined"] = yield Use("join_path")
        scene.conch("send", "Only once.", agent=RIVAL)
        topic = re.search(r"topic_[0-9a-f]+", notes["joined"])
        notes["first"] = yield Use("sync", {"topic_id": topic and topic[0], "wait_seconds": 0})
        threading.Event().wait(1)  # the cancellation comes up to 0.75 s after the reply
        notes["second"] = yield Use("sync", {"topic_id": topic and topic[0], "wait_seconds": 0})

    scene.model.play("reader", read_twice())

    scene.open("opencode").prompt("Please play reader.")

    assert "Only once." in notes["first"]
    assert "Only once." not in notes["second"]
